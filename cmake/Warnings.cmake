# Every target of ours is compiled with these; vendors' headers are SYSTEM includes and stay out of it.
add_library(tt_warnings INTERFACE)
target_compile_options(tt_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Werror>)
