// When a copy or set returns to the host.  The rules are CUDA's "API synchronization behavior":
//
//   copy         from       to         returns
//   synchronous  pageable   device     after staging up to 64 KiB, else when done
//                device     device     at once, unless CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is set for
//                a side otherwise             when done
//   asynchronous pageable   device     after staging up to 64 KiB, else when its turn came and it
//   is done
//                any        pageable   when done
//                host       host       when done
//                otherwise             at once
//   set                     device     at once
//   synchronous             host, managed    when done
//
// While the stream is captured nothing is staged and nothing waits.
#pragma once
#include <cuda.h>

#include "cuda/copy_plan.h"

namespace simgpu {

// On the default stream of the call.
CUresult copy_now(const CUDA_MEMCPY3D& parameters);
CUresult copy_async(const CUDA_MEMCPY3D& parameters, CUstream stream);
// The same for a stream that was found already.
CUresult copy_async(const CUDA_MEMCPY3D& parameters, Stream& stream, CUmemcpySrcAccessOrder order);

CUresult set_now(const CUDA_MEMSET_NODE_PARAMS& parameters);
CUresult set_async(const CUDA_MEMSET_NODE_PARAMS& parameters, CUstream stream);

// The forms that other structs and calls describe.
CUDA_MEMCPY3D copy_of(const CUDA_MEMCPY2D& p);
CUDA_MEMCPY3D copy_of(const CUDA_MEMCPY3D_PEER& p);

}  // namespace simgpu
