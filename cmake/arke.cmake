# How every target of the project is built: one function each for a module, a program and a test.

add_library(arke_options INTERFACE)
target_compile_options(arke_options INTERFACE -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes
                       -Wmissing-prototypes -Werror)
target_compile_definitions(arke_options INTERFACE _GNU_SOURCE)
target_include_directories(arke_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
if(ARKE_SANITIZE)
  target_compile_options(arke_options INTERFACE -fsanitize=${ARKE_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(arke_options INTERFACE -fsanitize=${ARKE_SANITIZE})
endif()

set(ARKE_SELDOM_RUN bench cli generator operators templates tuner)

# arke_module(name SOURCES a.c b.c [LIBS …]): static library arke_<name>, usable inside the shared library too.
function(arke_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(arke_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(arke_${name} PUBLIC arke_options ${ARG_LIBS})
  # With sanitizers: compiled in three fifths of the time, and nothing is optimised away before it is looked at.
  if(ARKE_SANITIZE AND name IN_LIST ARKE_SELDOM_RUN)
    target_compile_options(arke_${name} PRIVATE -O0)
  endif()
endfunction()

# What several test programs have in common: compiled once.
function(arke_test_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LIBS} arke_options PkgConfig::CHECK)
endfunction()

# Seconds that a program other than Check's may take as a test.
set(ARKE_TEST_TIMEOUT 120)
if(ARKE_SANITIZE)
  set(ARKE_TEST_TIMEOUT 480)
endif()

# arke_test(name SOURCES … LIBS … [TIMEOUT s] [PLAIN] [WAITS]): a Check program `test_<name>` run by CTest. malloc and its kin
# are wrapped so that tests/support/failing_alloc.h can fail the n-th allocation of any module. A TIMEOUT of 600 or more makes
# a test long: it runs generated kernels by the hundred on the emulator. Long ones and PLAIN ones are neither built nor run with
# sanitizers, where what they do to our own memory other tests do too: docs/testing.md says which those are.
# WAITS: it waits for most of its time. Such tests start first and one after the other, beside those that keep cores busy.
function(arke_test name)
  cmake_parse_arguments(ARG "PLAIN;WAITS" "TIMEOUT" "SOURCES;LIBS" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE ${ARG_LIBS} test_support arke_options PkgConfig::CHECK m)
  target_link_options(test_${name} PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(ARKE_SANITIZE AND NOT ARKE_SANITIZE_ALL AND (ARG_PLAIN OR ARG_TIMEOUT GREATER_EQUAL 600))
    set_target_properties(test_${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  add_test(NAME ${name} COMMAND test_${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set(timeout ${ARG_TIMEOUT})
  if(ARKE_SANITIZE)
    math(EXPR timeout "4 * ${timeout}")
    set_tests_properties(${name} PROPERTIES ENVIRONMENT_MODIFICATION CK_TIMEOUT_MULTIPLIER=set:4)
  endif()
  # Where CTest has no times of earlier runs, what may take longest starts first: cores are busy to the end.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} COST ${timeout})
  if(ARG_WAITS)
    set_tests_properties(${name} PROPERTIES COST 2000 RESOURCE_LOCK waiting)
  endif()
  if(ARG_TIMEOUT GREATER_EQUAL 600) # every class of configuration of a template
    set_tests_properties(${name} PROPERTIES LABELS long)
  endif()
endfunction()
