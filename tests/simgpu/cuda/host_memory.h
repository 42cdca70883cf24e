// Host memory that CUDA knows: pinned, registered, managed.
#pragma once
#include "cuda/address_map.h"

namespace simgpu {

// cuMemHostAlloc (kHost) and cuMemAllocManaged (kManaged): zeroed pages, in the address map, owned
// by the context.
CUresult allocate_host(Context& context, RangeKind kind, size_t bytes, unsigned flags,
                       RangePtr& out);
// cuMemHostRegister.  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED if any part of it is known already.
CUresult register_host(Context& context, void* address, size_t bytes, unsigned flags);

}  // namespace simgpu
