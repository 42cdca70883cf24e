// cuBLASLt: products with an epilogue, one algorithm for all.
#include <cublasLt.h>

#include <cstring>
#include <new>

#include "blas/launch.h"
#include "common/entry.h"

struct cublasLtContext;  // never made here: PyTorch passes a handle of cuBLAS

namespace {

using simgpu::blas::Activation;
using simgpu::blas::Matrix;
using simgpu::blas::Product;

struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t batch = 1;
  int64_t stride = 0;
};

struct Description {
  cudaDataType scale_type;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  int32_t pointers = CUBLASLT_POINTER_MODE_HOST;
  int32_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t bias_type = -1;  // the result's
};

Layout& layout_of(cublasLtMatrixLayout_t handle) {
  return *reinterpret_cast<Layout*>(handle);
}
Description& description_of(cublasLtMatmulDesc_t handle) {
  return *reinterpret_cast<Description*>(handle);
}

template <class Field>
cublasStatus_t set(Field& field, const void* value, size_t bytes) {
  if (bytes != sizeof field) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  memcpy(&field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Field>
cublasStatus_t get(const Field& field, void* value, size_t bytes, size_t* written) {
  if (written != nullptr) {
    *written = sizeof field;
  }
  if (bytes != sizeof field || value == nullptr) {
    return bytes == 0 && written != nullptr ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  }
  memcpy(value, &field, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

Matrix matrix(const void* data, cublasLtMatrixLayout_t handle, int32_t op = CUBLAS_OP_N) {
  const Layout& layout = layout_of(handle);
  return {data, layout.type, layout.leading, layout.stride, op != CUBLAS_OP_N};
}

bool add_epilogue(const Description& description, Product& product) {
  const uint32_t known = CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_GELU;
  if (description.epilogue & ~(known | CUBLASLT_EPILOGUE_DEFAULT)) {
    return false;
  }
  if (description.epilogue & CUBLASLT_EPILOGUE_BIAS) {
    product.bias = description.bias;
    product.bias_type =
        description.bias_type < 0 ? product.result.type : cudaDataType(description.bias_type);
  }
  product.activation = description.epilogue & CUBLASLT_EPILOGUE_RELU   ? Activation::kRelu
                       : description.epilogue & CUBLASLT_EPILOGUE_GELU ? Activation::kGelu
                                                                       : Activation::kNone;
  return true;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t scale_type) {
  SIMGPU_ENTER(cublasStatus_t);
  *handle = reinterpret_cast<cublasLtMatmulDesc_t>(
      new Description{.scale_type = scale_type, .compute = compute});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  SIMGPU_ENTER(cublasStatus_t);
  delete &description_of(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  SIMGPU_ENTER(cublasStatus_t);
  Description& description = description_of(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return set(description.pointers, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(description.op_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(description.op_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(description.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(description.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(description.bias_type, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  SIMGPU_ENTER(cublasStatus_t);
  *handle = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{.type = type, .rows = rows, .columns = columns, .leading = leading});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  SIMGPU_ENTER(cublasStatus_t);
  delete &layout_of(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  SIMGPU_ENTER(cublasStatus_t);
  Layout& layout = layout_of(handle);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set(layout.batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set(layout.stride, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                void* value, size_t bytes, size_t* written) {
  SIMGPU_ENTER(cublasStatus_t);
  const Layout& layout = layout_of(handle);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return get(static_cast<uint32_t>(layout.type), value, bytes, written);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return get(layout.rows, value, bytes, written);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return get(layout.columns, value, bytes, written);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return get(layout.leading, value, bytes, written);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return get(layout.batch, value, bytes, written);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return get(layout.stride, value, bytes, written);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  SIMGPU_ENTER(cublasStatus_t);
  *handle = reinterpret_cast<cublasLtMatmulPreference_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  SIMGPU_ENTER(cublasStatus_t);
  delete reinterpret_cast<char*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
  SIMGPU_ENTER(cublasStatus_t);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  SIMGPU_ENTER(cublasStatus_t);
  *found = wanted > 0 ? 1 : 0;
  if (wanted > 0) {
    results[0] = {};
    results[0].state = CUBLAS_STATUS_SUCCESS;
    results[0].wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t handle, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                              cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                              cublasLtMatrixLayout_t layout_c, void* d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t*, void*,
                              size_t, cudaStream_t stream) {
  SIMGPU_ENTER(cublasStatus_t);
  const Description& description = description_of(handle);
  const Layout& first = layout_of(layout_a);
  Product product;
  product.rows = static_cast<int64_t>(layout_of(layout_d).rows);
  product.columns = static_cast<int64_t>(layout_of(layout_d).columns);
  product.inner =
      static_cast<int64_t>(description.op_a == CUBLAS_OP_N ? first.columns : first.rows);
  product.batch = first.batch;
  product.a = matrix(a, layout_a, description.op_a);
  product.b = matrix(b, layout_b, description.op_b);
  product.source = matrix(c, layout_c);
  product.result = matrix(d, layout_d);
  product.scale_type = description.scale_type;
  product.tf32 = description.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if (description.pointers == CUBLASLT_POINTER_MODE_HOST) {
    product.alpha = simgpu::blas::load_scalar(alpha, description.scale_type);
    product.beta = simgpu::blas::load_scalar(beta, description.scale_type);
  } else {
    product.device_alpha = alpha;
    product.device_beta = beta;
  }
  for (const Matrix* operand : {&product.a, &product.b, &product.result}) {
    if (!simgpu::blas::is_supported(operand->type)) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
  }
  if (!add_epilogue(description, product)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return simgpu::blas::launch(product, stream) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                              : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
