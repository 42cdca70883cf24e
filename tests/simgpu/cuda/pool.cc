#include "cuda/context_memory.h"

namespace simgpu {

void trim_pools(int) {}

}  // namespace simgpu
