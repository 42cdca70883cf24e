// cuBLAS: handles, products, dot products; 16, 32 and 64 bit floating point.
#include <cublas_v2.h>

#include <new>

#include "blas/launch.h"
#include "common/entry.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
};

namespace simgpu::blas {
namespace {

Matrix matrix(const void* data, cudaDataType type, int64_t leading, bool transposed = false,
              int64_t stride = 0) {
  return {data, type, leading, stride, transposed};
}

Product shaped(int64_t rows, int64_t columns, int64_t inner, cudaDataType scale,
               int64_t batch = 1) {
  Product product;
  product.rows = rows;
  product.columns = columns;
  product.inner = inner;
  product.batch = batch;
  product.scale_type = scale;
  return product;
}

cublasStatus_t run(cublasHandle_t handle, Product& product, const void* alpha, const void* beta) {
  if (!handle) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  for (const Matrix* operand : {&product.a, &product.b, &product.result}) {
    if (!is_supported(operand->type)) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
  }
  product.source = product.result;
  product.tf32 = product.tf32 || handle->math == CUBLAS_TF32_TENSOR_OP_MATH;
  if (handle->pointers == CUBLAS_POINTER_MODE_DEVICE) {
    product.device_alpha = alpha;
    product.device_beta = beta;
  } else {
    product.alpha = alpha ? load_scalar(alpha, product.scale_type) : 1;
    product.beta = beta ? load_scalar(beta, product.scale_type) : 0;
  }
  return launch(product, handle->stream) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                        : CUBLAS_STATUS_EXECUTION_FAILED;
}

cudaDataType scale_of(cublasComputeType_t compute) {
  const bool half = compute == CUBLAS_COMPUTE_16F || compute == CUBLAS_COMPUTE_16F_PEDANTIC;
  const bool wide = compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC;
  return half ? CUDA_R_16F : wide ? CUDA_R_64F : CUDA_R_32F;
}

}  // namespace
}  // namespace simgpu::blas

using simgpu::blas::matrix;
using simgpu::blas::Product;
using simgpu::blas::run;
using simgpu::blas::scale_of;
using simgpu::blas::shaped;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  SIMGPU_ENTER(cublasStatus_t);
  *handle = new (std::nothrow) cublasContext;
  return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  SIMGPU_ENTER(cublasStatus_t);
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  SIMGPU_ENTER(cublasStatus_t);
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) {
  SIMGPU_ENTER(cublasStatus_t);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  SIMGPU_ENTER(cublasStatus_t);
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  SIMGPU_ENTER(cublasStatus_t);
  *mode = handle->math;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  SIMGPU_ENTER(cublasStatus_t);
  handle->pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  SIMGPU_ENTER(cublasStatus_t);
  *mode = handle->pointers;
  return CUBLAS_STATUS_SUCCESS;
}

#define SIMGPU_BLAS(letter, type, code)                                                            \
  cublasStatus_t cublas##letter##gemm_v2(cublasHandle_t handle, cublasOperation_t op_a,            \
                                         cublasOperation_t op_b, int m, int n, int k,              \
                                         const type* alpha, const type* a, int lda, const type* b, \
                                         int ldb, const type* beta, type* c, int ldc) {            \
    SIMGPU_ENTER(cublasStatus_t);                                                                  \
    Product product = shaped(m, n, k, code);                                                       \
    product.a = matrix(a, code, lda, op_a != CUBLAS_OP_N);                                         \
    product.b = matrix(b, code, ldb, op_b != CUBLAS_OP_N);                                         \
    product.result = matrix(c, code, ldc);                                                         \
    return run(handle, product, alpha, beta);                                                      \
  }                                                                                                \
  cublasStatus_t cublas##letter##gemmStridedBatched(                                               \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,  \
      const type* alpha, const type* a, int lda, long long stride_a, const type* b, int ldb,       \
      long long stride_b, const type* beta, type* c, int ldc, long long stride_c, int batch) {     \
    SIMGPU_ENTER(cublasStatus_t);                                                                  \
    Product product = shaped(m, n, k, code, batch);                                                \
    product.a = matrix(a, code, lda, op_a != CUBLAS_OP_N, stride_a);                               \
    product.b = matrix(b, code, ldb, op_b != CUBLAS_OP_N, stride_b);                               \
    product.result = matrix(c, code, ldc, false, stride_c);                                        \
    return run(handle, product, alpha, beta);                                                      \
  }                                                                                                \
  cublasStatus_t cublas##letter##dot_v2(cublasHandle_t handle, int n, const type* x, int incx,     \
                                        const type* y, int incy, type* result) {                   \
    SIMGPU_ENTER(cublasStatus_t);                                                                  \
    Product product = shaped(1, 1, n, code);                                                       \
    product.a = matrix(x, code, incx);                                                             \
    product.b = matrix(y, code, incy, true);                                                       \
    product.result = matrix(result, code, 1);                                                      \
    return run(handle, product, nullptr, nullptr);                                                 \
  }                                                                                                \
  cublasStatus_t cublas##letter##gemv_v2(                                                          \
      cublasHandle_t handle, cublasOperation_t op, int m, int n, const type* alpha, const type* a, \
      int lda, const type* x, int incx, const type* beta, type* y, int incy) {                     \
    SIMGPU_ENTER(cublasStatus_t);                                                                  \
    const bool transposed = op != CUBLAS_OP_N;                                                     \
    /* As a row: y^T = x^T op(a)^T, since a row's elements may lie apart. */                       \
    Product product = shaped(1, transposed ? n : m, transposed ? m : n, code);                     \
    product.a = matrix(x, code, incx);                                                             \
    product.b = matrix(a, code, lda, !transposed);                                                 \
    product.result = matrix(y, code, incy);                                                        \
    return run(handle, product, alpha, beta);                                                      \
  }

SIMGPU_BLAS(S, float, CUDA_R_32F)
SIMGPU_BLAS(D, double, CUDA_R_64F)

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a,
                                          cublasOperation_t op_b, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType type_a,
                                          int lda, long long stride_a, const void* b,
                                          cudaDataType type_b, int ldb, long long stride_b,
                                          const void* beta, void* c, cudaDataType type_c, int ldc,
                                          long long stride_c, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  SIMGPU_ENTER(cublasStatus_t);
  Product product = shaped(m, n, k, scale_of(compute), batch);
  product.tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  product.a = matrix(a, type_a, lda, op_a != CUBLAS_OP_N, stride_a);
  product.b = matrix(b, type_b, ldb, op_b != CUBLAS_OP_N, stride_b);
  product.result = matrix(c, type_c, ldc, false, stride_c);
  return run(handle, product, alpha, beta);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType type_a, int lda, const void* b, cudaDataType type_b,
                            int ldb, const void* beta, void* c, cudaDataType type_c, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
  SIMGPU_ENTER(cublasStatus_t);
  Product product = shaped(m, n, k, scale_of(compute));
  product.tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  product.a = matrix(a, type_a, lda, op_a != CUBLAS_OP_N);
  product.b = matrix(b, type_b, ldb, op_b != CUBLAS_OP_N);
  product.result = matrix(c, type_c, ldc);
  return run(handle, product, alpha, beta);
}

cublasStatus_t cublasSgemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                             int m, int n, int k, const float* alpha, const void* a,
                             cudaDataType type_a, int lda, const void* b, cudaDataType type_b,
                             int ldb, const float* beta, void* c, cudaDataType type_c, int ldc) {
  SIMGPU_ENTER(cublasStatus_t);
  Product product = shaped(m, n, k, CUDA_R_32F);
  product.a = matrix(a, type_a, lda, op_a != CUBLAS_OP_N);
  product.b = matrix(b, type_b, ldb, op_b != CUBLAS_OP_N);
  product.result = matrix(c, type_c, ldc);
  return run(handle, product, alpha, beta);
}

}  // extern "C"
