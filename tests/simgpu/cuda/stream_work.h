// Work that is neither a kernel nor a copy: host functions, stream memory operations, nothing at
// all.
#pragma once
#include <cuda.h>

#include "cuda/state.h"

namespace simgpu {

CUresult make_host_work(const CUDA_HOST_NODE_PARAMS& parameters, std::shared_ptr<const Work>& work);
bool host_params_of(const Work& work, CUDA_HOST_NODE_PARAMS& parameters);

CUresult make_memop_work(const CUstreamBatchMemOpParams* operations, unsigned count,
                         std::shared_ptr<const Work>& work);
// The operations; empty if `work` is something else.
std::vector<CUstreamBatchMemOpParams> memops_of(const Work& work);

std::shared_ptr<const Work> empty_work();

}  // namespace simgpu
