// Copies and sets: what moves bytes on a device.
//
// Every entry point fills in the driver's own 3D description and makes a work of it; a graph node
// does the same with the description that it stores.
#pragma once
#include <cuda.h>

#include <memory>

#include "cuda/state.h"

namespace simgpu {

// Validates what can be known at the call and makes the work.  CUDA_ERROR_INVALID_VALUE for pitches
// that are too small, and for device ranges that are not wholly inside live memory.  Host memory is
// read when the work runs.
CUresult make_copy_work(const CUDA_MEMCPY3D& parameters, std::shared_ptr<const Work>& work);
CUresult make_set_work(const CUDA_MEMSET_NODE_PARAMS& parameters,
                       std::shared_ptr<const Work>& work);

// The parameters of a captured work; false if it is of another kind.
bool copy_params_of(const Work& work, CUDA_MEMCPY3D& parameters);
bool set_params_of(const Work& work, CUDA_MEMSET_NODE_PARAMS& parameters);

// A contiguous copy between any two addresses, as the 3D description says it.
CUDA_MEMCPY3D linear_copy(CUdeviceptr destination, CUdeviceptr source, size_t bytes);

}  // namespace simgpu
