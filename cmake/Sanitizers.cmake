# TT_SANITIZE=address,undefined or thread: for all targets, since the pieces load each other.
set(TT_SANITIZE "" CACHE STRING "sanitizers for every target: empty, 'address,undefined' or 'thread'")
if(TT_SANITIZE)
  add_compile_options(-fsanitize=${TT_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TT_SANITIZE})
  if(TT_SANITIZE MATCHES undefined)
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=undefined>)
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
