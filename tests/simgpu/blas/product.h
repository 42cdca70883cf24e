// Matrix products in plain code: right, not fast.
#pragma once
#include <library_types.h>

#include <cstddef>
#include <cstdint>

namespace simgpu::blas {

// One operand; column-major, as in cuBLAS.
struct Matrix {
  const void* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  int64_t leading = 0;  // elements between columns
  int64_t stride = 0;   // elements between the matrices of a batch
  bool transposed = false;
};

enum class Activation : uint8_t { kNone, kRelu, kGelu };

// result = activation(alpha a b + beta source + bias), `batch` times.
struct Product {
  int64_t rows = 0, columns = 0, inner = 0, batch = 1;
  Matrix a, b;
  Matrix source, result;
  double alpha = 1, beta = 0;
  const void* device_alpha = nullptr;  // where they lie if the caller keeps them on the device
  const void* device_beta = nullptr;
  cudaDataType scale_type = CUDA_R_32F;
  const void* bias = nullptr;  // one element per row
  cudaDataType bias_type = CUDA_R_32F;
  Activation activation = Activation::kNone;
  bool tf32 = false;  // of floats: by tensor cores
};

// False for a type that is not supported: 16, 32 and 64 bit floating point are.
bool is_supported(cudaDataType type);
double load_scalar(const void* at, cudaDataType type);
void multiply(const Product& product);

}  // namespace simgpu::blas
