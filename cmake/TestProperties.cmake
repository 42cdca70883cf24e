# What every test of ours runs with: the simulated libraries first on the loader's path, a simulated machine of its
# own (tests that run at the same time must not see each other's device memory), a time limit (a test that hangs
# is a failed test), and sanitizers that stop at the first report.
set(SIMGPU_DIR ${CMAKE_BINARY_DIR}/simgpu)

file(STRINGS ${PROJECT_SOURCE_DIR}/tests/costs.txt costs REGEX "^[^#]")
foreach(line IN LISTS costs)
  string(REPLACE " " ";" line "${line}")
  list(GET line 0 name)
  list(GET line 1 TT_COST_${name})
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/costs.txt)

# tt_test_properties(NAME [TIMEOUT seconds on a usual machine] [LABELS label..] [PROCESSORS n])
# PROCESSORS: in thirds of a processor, as scripts/test counts: a test that computes all the time takes 3, one that waits 1.
function(tt_test_properties name)
  cmake_parse_arguments(ARG "" "TIMEOUT;PROCESSORS" "LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  # What hangs, hangs for ever; machines that share a processor with others have taken three times as long as usual.
  math(EXPR ARG_TIMEOUT "2 * ${ARG_TIMEOUT}")
  if(TT_SANITIZE)
    math(EXPR ARG_TIMEOUT "2 * ${ARG_TIMEOUT}")  # instrumented code is that much slower, TSan above all
  endif()
  if(DEFINED TT_COST_${name})
    set_tests_properties(${name} PROPERTIES COST ${TT_COST_${name}})
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" PROCESSORS ${ARG_PROCESSORS}
    ENVIRONMENT "LD_LIBRARY_PATH=${SIMGPU_DIR};SIMGPU_NODE=${CMAKE_BINARY_DIR}/${name};\
ASAN_OPTIONS=detect_stack_use_after_return=1:handle_sigill=1;\
UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1;TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")
endfunction()

# Reads the settings that a test states in comments `// KEYWORD: key=value ..` on its first 20 lines.
# tt_header_lines(FILE KEYWORD out): a list with one element per such line, the text after the colon.
function(tt_header_lines file keyword out)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} head LIMIT_COUNT 20)
  set(found)
  foreach(line IN LISTS head)
    if(line MATCHES "^// ${keyword}: *(.*)$")
      list(APPEND found "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# tt_header_value("key=value key2=value2" key out [default])
function(tt_header_value text key out)
  if("${text}" MATCHES "(^| )${key}=([^ ]*)")
    set(${out} "${CMAKE_MATCH_2}" PARENT_SCOPE)
  else()
    set(${out} "${ARGN}" PARENT_SCOPE)
  endif()
endfunction()

# tt_googletest_program(TARGET KIND): compiles a test, not what it tests, at -O1 -g1 (googletest's macros take three times as
# long at -O2 -g), with googletest's header precompiled once for all targets of a KIND: those of the same definitions and options.
function(tt_googletest_program target kind)
  if(NOT TT_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1> $<$<CONFIG:RelWithDebInfo>:-g1>)
  endif()
  target_compile_options(${target} PRIVATE ${TT_QUIET_WITHIN_HEADERS})
  get_property(first GLOBAL PROPERTY TT_GOOGLETEST_OF_${kind})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE <gtest/gtest.h>)
    set_property(GLOBAL PROPERTY TT_GOOGLETEST_OF_${kind} ${target})
  endif()
endfunction()
