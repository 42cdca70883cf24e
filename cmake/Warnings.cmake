# Every target of ours is compiled with these; vendors' headers are SYSTEM includes and stay out of it.
add_library(tt_warnings INTERFACE)
target_compile_options(tt_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Werror>
  # g++ 12 at -O3 warns of overlaps within std::string's own operator+ (GCC's bug 105651).
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release>>:-Wno-restrict>)
# A library that misses one of its own functions does not link, rather than failing in somebody's program.
if(NOT TT_SANITIZE)
  string(APPEND CMAKE_SHARED_LINKER_FLAGS " -Wl,-z,defs")
endif()
# g++ 12 warns of the inside of std::string once its header is precompiled, and is no header of the system any more
# (GCC's bugs 105329 and 105651), and of what an empty optional does not hold (80635); clang-tidy and the sanitizers look at the same sources without.
set(TT_QUIET_WITHIN_HEADERS)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(TT_QUIET_WITHIN_HEADERS -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-maybe-uninitialized)
endif()
