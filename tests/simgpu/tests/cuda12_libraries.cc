// The libraries of CUDA 12, as a program compiled against its headers sees them.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "cudart/cuda12.h"

namespace {

void* open_library(const std::string& name) {
  void* library = dlopen((SIMGPU12_DIR "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_TRUE(library) << dlerror();
  return library;
}

template <class Function>
Function* find(void* library, const char* name) {
  void* found = dlsym(library, name);
  EXPECT_TRUE(found) << name;
  return reinterpret_cast<Function*>(found);
}
#define FIND(library, name) find<decltype(name)>(library, #name)

TEST(Cuda12, HasEveryNameThatPyTorchImports) {
  void* library = open_library("libcudart.so.12");
  std::ifstream list(SIMGPU_EXPORTS_DIR "/cudart12.txt");
  int count = 0;
  for (std::string name; std::getline(list, name); ++count) {
    EXPECT_TRUE(dlvsym(library, name.c_str(), "libcudart.so.12")) << name;
  }
  EXPECT_GT(count, 80);
  EXPECT_FALSE(dlsym(library, "cudaMemPrefetchAsync")) << "has another signature in CUDA 12";
}

TEST(Cuda12, WritesItsOwnLayouts) {
  void* library = open_library("libcudart.so.12");
  struct {
    simgpu::cuda12::DeviceProperties properties;
    std::array<char, 64> behind;
  } device;
  device.behind.fill('x');
  const auto untouched = device.behind;
  using GetProperties = cudaError_t(simgpu::cuda12::DeviceProperties*, int);
  ASSERT_EQ(find<GetProperties>(library, "cudaGetDeviceProperties_v2")(&device.properties, 0),
            cudaSuccess);
  int count = 0;
  FIND(library, cudaDeviceGetAttribute)(&count, cudaDevAttrMultiProcessorCount, 0);
  EXPECT_EQ(device.properties.multiProcessorCount, count);
  EXPECT_GT(device.properties.maxBlocksPerMultiProcessor, 0);
  EXPECT_GT(device.properties.clockRate, 0);
  EXPECT_EQ(device.behind, untouched);

  void* memory = nullptr;
  ASSERT_EQ(FIND(library, cudaMalloc)(&memory, 256), cudaSuccess);
  std::array<char, sizeof(cudaPointerAttributes)> bytes;
  bytes.fill('x');
  auto* attributes = reinterpret_cast<cudaPointerAttributes*>(bytes.data());
  ASSERT_EQ(FIND(library, cudaPointerGetAttributes)(attributes, memory), cudaSuccess);
  EXPECT_EQ(attributes->devicePointer, memory);
  EXPECT_EQ(bytes[sizeof(simgpu::cuda12::PointerAttributes)], 'x');
}

TEST(Cuda12, Multiplies) {
  void* blas = open_library("libcublas.so.12");
  void* runtime = open_library("libcudart.so.12");
  cublasHandle_t handle = nullptr;
  ASSERT_EQ(FIND(blas, cublasCreate_v2)(&handle), CUBLAS_STATUS_SUCCESS);
  float* values = nullptr;  // device memory is host memory here
  ASSERT_EQ(FIND(runtime, cudaMalloc)(reinterpret_cast<void**>(&values), 4096), cudaSuccess);
  float* a = values;           // 2 x 3
  float* b = values + 6;       // 4 x 3, transposed below
  float* c = values + 6 + 12;  // 2 x 4
  for (int i = 0; i < 6; ++i) {
    a[i] = static_cast<float>(i + 1);
  }
  for (int i = 0; i < 12; ++i) {
    b[i] = static_cast<float>(i % 5);
  }
  for (int i = 0; i < 8; ++i) {
    c[i] = 100;
  }
  const float alpha = 2;
  const float beta = 1;
  ASSERT_EQ(FIND(blas, cublasSgemm_v2)(handle, CUBLAS_OP_N, CUBLAS_OP_T, 2, 4, 3, &alpha, a, 2, b,
                                       4, &beta, c, 2),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(FIND(runtime, cudaDeviceSynchronize)(), cudaSuccess);
  for (int row = 0; row < 2; ++row) {
    for (int column = 0; column < 4; ++column) {
      float sum = 0;
      for (int k = 0; k < 3; ++k) {
        sum += a[k * 2 + row] * b[k * 4 + column];
      }
      EXPECT_EQ(c[column * 2 + row], 100 + 2 * sum) << row << ',' << column;
    }
  }
}

TEST(Cuda12, MultipliesWithEpilogue) {
  void* blas = open_library("libcublasLt.so.12");
  void* runtime = open_library("libcudart.so.12");
  float* values = nullptr;
  ASSERT_EQ(FIND(runtime, cudaMalloc)(reinterpret_cast<void**>(&values), 4096), cudaSuccess);
  for (int i = 0; i < 4; ++i) {  // 2 x 2: -1 0, 1 2
    values[i] = static_cast<float>(i - 1);
  }
  values[4] = 1, values[5] = 3;  // 2 x 1
  float* bias = values + 6;
  bias[0] = -1, bias[1] = 0.5F;
  cublasLtMatmulDesc_t description = nullptr;
  FIND(blas, cublasLtMatmulDescCreate)(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  const auto set = FIND(blas, cublasLtMatmulDescSetAttribute);
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
  set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
  cublasLtMatrixLayout_t square = nullptr;
  cublasLtMatrixLayout_t column = nullptr;
  FIND(blas, cublasLtMatrixLayoutCreate)(&square, CUDA_R_32F, 2, 2, 2);
  FIND(blas, cublasLtMatrixLayoutCreate)(&column, CUDA_R_32F, 2, 1, 2);
  uint64_t columns = 0;
  size_t written = 0;
  EXPECT_EQ(FIND(blas, cublasLtMatrixLayoutGetAttribute)(column, CUBLASLT_MATRIX_LAYOUT_COLS,
                                                         &columns, sizeof columns, &written),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(columns, 1U);
  EXPECT_EQ(written, sizeof columns);
  const float alpha = 1;
  const float beta = 0;
  float* out = values + 16;
  ASSERT_EQ(
      FIND(blas, cublasLtMatmul)(nullptr, description, &alpha, values, square, values + 4, column,
                                 &beta, out, column, out, column, nullptr, nullptr, 0, nullptr),
      CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(FIND(runtime, cudaDeviceSynchronize)(), cudaSuccess);
  EXPECT_EQ(out[0], 1);     // relu(-1 * 1 + 1 * 3 - 1)
  EXPECT_EQ(out[1], 6.5F);  // relu(0 * 1 + 2 * 3 + 0.5)
}

}  // namespace
