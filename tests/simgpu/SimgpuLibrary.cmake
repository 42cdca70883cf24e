# What the vendors' headers bring takes several times as long to compile as a file itself: ten files are compiled as one, so a
# name in an anonymous namespace stands once in a library.  clang-tidy wants them apart.
function(simgpu_compile_as_few target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
  endif()
endfunction()

# simgpu_library(NAME cuda SONAME libcuda.so.1 ERROR 801 PATTERNS "cu*" [VERSION_NODE node] [OUT folder]
#                [EXPORTS list, if not NAME] SOURCES ...)
#
# Without PATTERNS it exports the names of its list and nothing else.
# Builds one vendor library from its sources and a stub for every other name of exports/NAME.txt.
# ERROR is the library's own code for "not supported".  The result is linked -Bsymbolic so that calls
# inside it do not go through the PLT: the real libraries cannot be interposed from inside either.
function(simgpu_library)
  cmake_parse_arguments(ARG "" "NAME;SONAME;ERROR;VERSION_NODE;OUT;EXPORTS" "PATTERNS;SOURCES" ${ARGN})
  set(gen ${CMAKE_CURRENT_BINARY_DIR})
  if(NOT ARG_EXPORTS)
    set(ARG_EXPORTS ${ARG_NAME})
  endif()
  set(list ${PROJECT_SOURCE_DIR}/tests/simgpu/exports/${ARG_EXPORTS}.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} names)

  set(stubs "// Generated from exports/${ARG_EXPORTS}.txt.\n  .text\n")
  foreach(name IN LISTS names)
    if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
      string(CONCAT refuse "  adrp x0, .Lname_${name}\n  add x0, x0, :lo12:.Lname_${name}\n"
        "  mov w1, ${ARG_ERROR}\n  b simgpu_unsupported\n")
    else()
      string(CONCAT refuse "  leaq .Lname_${name}(%rip), %rdi\n  movl $${ARG_ERROR}, %esi\n  jmp simgpu_unsupported\n")
    endif()
    string(APPEND stubs "  .weak ${name}\n  .type ${name},@function\n${name}:\n${refuse}"
      "  .size ${name}, .-${name}\n")
  endforeach()
  string(APPEND stubs "  .section .rodata\n")
  foreach(name IN LISTS names)
    string(APPEND stubs ".Lname_${name}: .asciz \"${name}\"\n")
  endforeach()
  string(APPEND stubs "  .section .note.GNU-stack,\"\",@progbits\n")
  file(CONFIGURE OUTPUT ${gen}/${ARG_NAME}_stubs.S CONTENT "${stubs}" @ONLY)

  if(NOT ARG_PATTERNS)
    set(ARG_PATTERNS ${names})
  endif()
  if(NOT ARG_OUT)
    set(ARG_OUT ${SIMGPU_OUT})
  endif()
  list(JOIN ARG_PATTERNS "; " patterns)
  file(CONFIGURE OUTPUT ${gen}/${ARG_NAME}.map
    CONTENT "${ARG_VERSION_NODE} { global: ${patterns}; simgpu*; local: *; };\n" @ONLY)

  add_library(simgpu_${ARG_NAME} SHARED ${ARG_SOURCES} ${gen}/${ARG_NAME}_stubs.S)
  simgpu_compile_as_few(simgpu_${ARG_NAME})
  string(REGEX REPLACE "\\.so\\..*" "" base ${ARG_SONAME})
  string(REGEX REPLACE ".*\\.so\\." "" version ${ARG_SONAME})
  string(REGEX REPLACE "^lib" "" base ${base})
  set_target_properties(simgpu_${ARG_NAME} PROPERTIES
    OUTPUT_NAME ${base} SOVERSION ${version} VERSION ${version}
    LIBRARY_OUTPUT_DIRECTORY ${ARG_OUT} LINK_DEPENDS ${gen}/${ARG_NAME}.map)
  target_link_libraries(simgpu_${ARG_NAME} PRIVATE simgpu_common simgpu_headers tt_warnings Threads::Threads)
  target_link_options(simgpu_${ARG_NAME} PRIVATE
    -Wl,--version-script=${gen}/${ARG_NAME}.map -Wl,-Bsymbolic)
endfunction()
