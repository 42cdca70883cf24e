# TT_SANITIZE=address,undefined or thread: for all targets, since the pieces load each other.
set(TT_SANITIZE "" CACHE STRING "sanitizers for every target: empty, 'address,undefined' or 'thread'")
if(TT_SANITIZE)
  add_compile_options(-fsanitize=${TT_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TT_SANITIZE})
  if(TT_SANITIZE MATCHES undefined)
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=undefined>)
  endif()
  # A check that fails stops the program where it is, and AddressSanitizer prints the stack (handle_sigill, TestProperties.cmake).  With
  # messages each check has data of its own, and the loader a pointer in it to correct: of the analyzer's library 6 million of
  # them at each start, and three fifths of its bytes.  vptr, which needs them, is left to the fuzz preset (clang).
  if(TT_SANITIZE MATCHES "address.*undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize-undefined-trap-on-error>)
  endif()
  # What the sanitizers add hides from g++ what is set where (GCC's manual, -fsanitize).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-Wno-maybe-uninitialized>)
  endif()
endif()
# For folders that compile the tracer: its fences are for readers in other processes, which TSan does not see anyway.
if(TT_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(TT_FENCES_UNDER_TSAN -Wno-tsan)
endif()
