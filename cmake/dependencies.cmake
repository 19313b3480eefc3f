# Outside libraries. Everything is Debian's; scripts/setup installs them.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

if(ARKE_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  # Sections the NVPTX path never reaches are half of LLVM's size.
  add_compile_options(-ffunction-sections -fdata-sections)
  add_link_options(-Wl,--gc-sections -s)
endif()

function(arke_dependency target module static_extra)
  if(ARKE_STATIC)
    pkg_check_modules(${target} REQUIRED ${module})
    find_library(${target}_ARCHIVE NAMES lib${target}.a lib${target}_a.a REQUIRED)
    add_library(${target}::${target} INTERFACE IMPORTED)
    target_link_libraries(${target}::${target} INTERFACE ${${target}_ARCHIVE} ${static_extra})
  else()
    pkg_check_modules(${target} REQUIRED IMPORTED_TARGET GLOBAL ${module})
    add_library(${target}::${target} INTERFACE IMPORTED)
    target_link_libraries(${target}::${target} INTERFACE PkgConfig::${target})
  endif()
endfunction()

arke_dependency(jansson jansson "")
arke_dependency(sqlite3 sqlite3 "m;dl;Threads::Threads")
arke_dependency(uv libuv "dl;rt;Threads::Threads")
pkg_check_modules(CHECK IMPORTED_TARGET check)

# The interpreter itself: where a version manager's script stands before it, that costs more than most tests that it
# starts.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable)" OUTPUT_VARIABLE python
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(Python3_EXECUTABLE ${python} CACHE FILEPATH "Runs scripts that are tests")
endif()

# LLVM 22, or 21: C API, NVPTX back end.
find_program(ARKE_LLVM_CONFIG NAMES llvm-config-22 llvm-config-21 HINTS /usr/lib/llvm-22/bin /usr/lib/llvm-21/bin REQUIRED)
execute_process(COMMAND ${ARKE_LLVM_CONFIG} --includedir OUTPUT_VARIABLE llvm_include OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND ${ARKE_LLVM_CONFIG} --libdir OUTPUT_VARIABLE llvm_libdir OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND ${ARKE_LLVM_CONFIG} --version OUTPUT_VARIABLE ARKE_LLVM_VERSION OUTPUT_STRIP_TRAILING_WHITESPACE)
add_library(llvm INTERFACE)
target_include_directories(llvm SYSTEM INTERFACE ${llvm_include})
target_link_directories(llvm INTERFACE ${llvm_libdir})
if(ARKE_STATIC)
  execute_process(COMMAND ${ARKE_LLVM_CONFIG} --link-static --libs nvptx passes
                  OUTPUT_VARIABLE llvm_libs OUTPUT_STRIP_TRAILING_WHITESPACE)
  separate_arguments(llvm_libs)
  target_link_libraries(llvm INTERFACE -Wl,--start-group ${llvm_libs} -Wl,--end-group -Wl,-Bstatic -lstdc++ -lz -lzstd
                        -Wl,-Bdynamic m dl rt Threads::Threads)
  target_link_options(llvm INTERFACE -static-libgcc)
else()
  execute_process(COMMAND ${ARKE_LLVM_CONFIG} --libs OUTPUT_VARIABLE llvm_libs OUTPUT_STRIP_TRAILING_WHITESPACE)
  target_link_libraries(llvm INTERFACE ${llvm_libs})
endif()
