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
