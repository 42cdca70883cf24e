// The functions of cuBLAS and cuBLASLt that calls.def has, by their parameters.  Their headers are
// not needed for the build; tests/unit/cublas_api.cc compares these with them.
//
// cuBLAS's enumerations and handles as what they are passed as.  kSize: int, or int64_t in
// functions called _64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace traintrace::cublas {

enum class Status : int { kSuccess = 0, kNotSupported = 15 };

using Handle = void*;
using Operation = int;
using Type = int;  // cudaDataType
using Stride = long long;

template <class Size>
Status gemm(Handle, Operation, Operation, Size m, Size n, Size k, const void* alpha, const void* a,
            Size lda, const void* b, Size ldb, const void* beta, void* c, Size ldc);
template <class Size>
Status gemm_batched(Handle, Operation, Operation, Size m, Size n, Size k, const void* alpha,
                    const void* const* a, Size lda, const void* const* b, Size ldb,
                    const void* beta, void* const* c, Size ldc, Size batch);
template <class Size>
Status gemm_strided(Handle, Operation, Operation, Size m, Size n, Size k, const void* alpha,
                    const void* a, Size lda, Stride stride_a, const void* b, Size ldb,
                    Stride stride_b, const void* beta, void* c, Size ldc, Stride stride_c,
                    Size batch);

template <class Size>
Status gemm_of_types(Handle, Operation, Operation, Size m, Size n, Size k, const void* alpha,
                     const void* a, Type type_a, Size lda, const void* b, Type type_b, Size ldb,
                     const void* beta, void* c, Type type_c, Size ldc);
template <class Size>
Status gemm_ex(Handle, Operation, Operation, Size m, Size n, Size k, const void* alpha,
               const void* a, Type type_a, Size lda, const void* b, Type type_b, Size ldb,
               const void* beta, void* c, Type type_c, Size ldc, int compute, int algorithm);
template <class Size>
Status gemm_batched_ex(Handle, Operation, Operation, Size m, Size n, Size k, const void* alpha,
                       const void* const* a, Type type_a, Size lda, const void* const* b,
                       Type type_b, Size ldb, const void* beta, void* const* c, Type type_c,
                       Size ldc, Size batch, int compute, int algorithm);
template <class Size>
Status gemm_strided_ex(Handle, Operation, Operation, Size m, Size n, Size k, const void* alpha,
                       const void* a, Type type_a, Size lda, Stride stride_a, const void* b,
                       Type type_b, Size ldb, Stride stride_b, const void* beta, void* c,
                       Type type_c, Size ldc, Stride stride_c, Size batch, int compute,
                       int algorithm);

using Layout = void*;
Status matmul(Handle, void* operation, const void* alpha, const void* a, Layout layout_a,
              const void* b, Layout layout_b, const void* beta, const void* c, Layout layout_c,
              void* d, Layout layout_d, const void* algorithm, void* workspace,
              size_t workspace_bytes, void* stream);

// cublasLtMatrixLayoutGetAttribute: `written` may be null.
enum class Attribute : int { kType = 0, kRows = 2, kColumns = 3, kBatch = 5 };
Status get_attribute(Layout, Attribute, void* to, size_t bytes, size_t* written);
Status set_logger(int level_or_mask);

}  // namespace traintrace::cublas
