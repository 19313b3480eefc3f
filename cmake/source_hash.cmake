# cmake -DFILES="a.c;b.c" -DNAME=MACRO -DOUTPUT=header -P source_hash.cmake: a header whose macro changes
# whenever one of the files does.
set(all "")
foreach(file ${FILES})
  file(SHA256 ${file} hash)
  string(APPEND all ${hash})
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 12 hash)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define ${NAME} \"${hash}\"\n")
