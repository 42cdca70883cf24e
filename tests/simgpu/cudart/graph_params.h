// Parameters of graph nodes, in the runtime's and in the driver's form.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "cudart/status.h"

namespace simgpu::cudart {

// The runtime means the context of the calling thread where the driver takes one.
Status current_context(CUcontext& context);

Status driver_params(const cudaKernelNodeParams* params, CUDA_KERNEL_NODE_PARAMS& out);
cudaKernelNodeParams runtime_params(const CUDA_KERNEL_NODE_PARAMS& params);

// The general form, for cudaGraphAddNode and its relatives.
Status driver_params(const cudaGraphNodeParams* params, CUgraphNodeParams& out);
// Gives what the driver has written to `from` back to the program.
void return_results(const CUgraphNodeParams& from, cudaGraphNodeParams& to);

}  // namespace simgpu::cudart
