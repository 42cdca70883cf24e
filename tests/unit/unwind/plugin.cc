// Code that comes and goes.  Built twice with frames of other sizes: what was learned of one
// variant is wrong for the other at the same address.
#include <stdlib.h>

namespace {

constexpr int kBytes = TT_VARIANT * 4096;
volatile int g_sink;

int call(int (*callback)(), int depth) {
  volatile char buffer[kBytes];
  buffer[0] = 1;
  const int below = depth == 0 ? callback() : call(callback, depth - 1);
  return below + buffer[0] + g_sink;
}

thread_local int (*t_callback)();
thread_local int t_depth;

int compare(const void*, const void*) {
  return call(t_callback, t_depth) != 0 ? 0 : 1;
}

}  // namespace

// Calls back below `depth` frames of its own, which lie below qsort.
extern "C" void call_back(int (*callback)(), int depth) {
  int numbers[2] = {1, 2};
  t_callback = callback;
  t_depth = depth;
  qsort(numbers, 2, sizeof(int), compare);
}
