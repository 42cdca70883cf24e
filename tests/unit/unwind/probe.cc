// Loaded into an interpreter by ctypes.
#include <string.h>

#include "tests/unit/unwind_compare.h"

// How many frames there are above the call, or -1 and where the ways of taking a stack differ.
extern "C" __attribute__((visibility("default"))) int compare_stacks(char* text, size_t bytes) {
  static unwind_test::Stacks stacks;
  TT_TAKE_STACKS(stacks);
  const std::string difference = unwind_test::difference(stacks);
  strncpy(text, difference.c_str(), bytes - 1);
  text[bytes - 1] = '\0';
  return difference.empty() ? static_cast<int>(stacks.ours.count) : -1;
}
