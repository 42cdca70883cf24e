// How a product gets onto a stream: as a kernel, launched like one of the real library.
#pragma once
#include <cuda_runtime_api.h>

#include "blas/product.h"

namespace simgpu::blas {

cudaError_t launch(const Product& product, cudaStream_t stream);

}  // namespace simgpu::blas
