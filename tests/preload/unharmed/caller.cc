// A library with frames of its own above a call; built twice, of different sizes, so that one lies
// where the other was.
#include <cuda_runtime_api.h>

#ifdef UNHARMED_LARGE
extern "C" char g_room[300'000];
char g_room[300'000] = {1};
#endif

extern "C" int call_from_here(int depth) {
  volatile char room[64] = {};
#ifdef UNHARMED_LARGE
  volatile char more[512] = {};
  room[0] = more[depth];
#endif
  const int result =
      depth > 0 ? call_from_here(depth - 1) : static_cast<int>(cudaMemset(nullptr, 0, 0));
  return result + 1 + room[0];
}
