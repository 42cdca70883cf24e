// Our declarations of cuBLAS against NVIDIA's headers, where these are at hand.
#include <gtest/gtest.h>

#include "interpose/calls/cublas_api.h"

#if __has_include(<cublasLt.h>) && __has_include(<cublas_v2.h>)
#include <cublasLt.h>
#include <cublas_v2.h>

#include <type_traits>

namespace ours = traintrace::cublas;

namespace {

// Passed in the same way: a pointer as a pointer, a number of the same size.
template <class Ours, class Theirs>
constexpr bool kAlike =
    std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>&& std::is_floating_point_v<Ours> ==
        std::is_floating_point_v<Theirs> &&
    !std::is_class_v<Theirs> && sizeof(Ours) == sizeof(Theirs);

// Of two functions of one name (C++ has some more of cuBLAS's own) the one that is alike.
template <class Result, class... Ours>
struct Function {
  template <class Theirs, class... Arguments>
  static constexpr bool alike(Theirs (*)(Arguments...)) {
    if constexpr (sizeof...(Ours) != sizeof...(Arguments)) {
      return false;
    } else {
      return sizeof(Result) == sizeof(Theirs) && (kAlike<Ours, Arguments> && ...);
    }
  }
};

template <class Result, class... Ours>
Function<Result, Ours...> of(Result (*)(Ours...));

#define SAME(our, their) static_assert(decltype(of(our))::alike(their), #their)

using Handle = cublasHandle_t;
using Op = cublasOperation_t;
using Type = cudaDataType;
using Compute = cublasComputeType_t;
using Algorithm = cublasGemmAlgo_t;
// The headers have these twice, once with a cudaDataType in the place of a cublasComputeType_t.
template <class Size>
using GemmEx = cublasStatus_t (*)(Handle, Op, Op, Size, Size, Size, const void*, const void*, Type,
                                  Size, const void*, Type, Size, const void*, void*, Type, Size,
                                  Compute, Algorithm);
template <class Size>
using GemmBatchedEx = cublasStatus_t (*)(Handle, Op, Op, Size, Size, Size, const void*,
                                         const void* const[], Type, Size, const void* const[], Type,
                                         Size, const void*, void* const[], Type, Size, Size,
                                         Compute, Algorithm);
template <class Size>
using GemmStridedBatchedEx = cublasStatus_t (*)(Handle, Op, Op, Size, Size, Size, const void*,
                                                const void*, Type, Size, long long, const void*,
                                                Type, Size, long long, const void*, void*, Type,
                                                Size, long long, Size, Compute, Algorithm);

SAME(ours::gemm_ex<int>, static_cast<GemmEx<int>>(cublasGemmEx));
SAME(ours::gemm_ex<int64_t>, static_cast<GemmEx<int64_t>>(cublasGemmEx_64));
SAME(ours::gemm_batched_ex<int>, static_cast<GemmBatchedEx<int>>(cublasGemmBatchedEx));
SAME(ours::gemm_batched_ex<int64_t>, static_cast<GemmBatchedEx<int64_t>>(cublasGemmBatchedEx_64));
SAME(ours::gemm_strided_ex<int>,
     static_cast<GemmStridedBatchedEx<int>>(cublasGemmStridedBatchedEx));
SAME(ours::gemm_strided_ex<int64_t>,
     static_cast<GemmStridedBatchedEx<int64_t>>(cublasGemmStridedBatchedEx_64));
SAME(ours::gemm_of_types<int>, cublasSgemmEx);
SAME(ours::gemm_of_types<int64_t>, cublasSgemmEx_64);
#define SAME_OF_TYPE(letter, version)                                \
  SAME(ours::gemm<int>, cublas##letter##gemm##version);              \
  SAME(ours::gemm<int64_t>, cublas##letter##gemm##version##_64);     \
  SAME(ours::gemm_batched<int>, cublas##letter##gemmBatched);        \
  SAME(ours::gemm_batched<int64_t>, cublas##letter##gemmBatched_64); \
  SAME(ours::gemm_strided<int>, cublas##letter##gemmStridedBatched); \
  SAME(ours::gemm_strided<int64_t>, cublas##letter##gemmStridedBatched_64)
SAME_OF_TYPE(H, );
SAME_OF_TYPE(S, _v2);
SAME_OF_TYPE(D, _v2);
SAME(ours::matmul, cublasLtMatmul);
SAME(ours::get_attribute, cublasLtMatrixLayoutGetAttribute);
SAME(ours::set_logger, cublasLtLoggerSetLevel);
SAME(ours::set_logger, cublasLtLoggerSetMask);

#define SAME_VALUE(our, their) static_assert(static_cast<int>(our) == static_cast<int>(their))
SAME_VALUE(ours::Status::kSuccess, CUBLAS_STATUS_SUCCESS);
SAME_VALUE(ours::Status::kNotSupported, CUBLAS_STATUS_NOT_SUPPORTED);
SAME_VALUE(ours::Attribute::kType, CUBLASLT_MATRIX_LAYOUT_TYPE);
SAME_VALUE(ours::Attribute::kRows, CUBLASLT_MATRIX_LAYOUT_ROWS);
SAME_VALUE(ours::Attribute::kColumns, CUBLASLT_MATRIX_LAYOUT_COLS);
SAME_VALUE(ours::Attribute::kBatch, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);

}  // namespace

TEST(CublasApi, IsThatOfTheHeaders) {
  // It has compiled.
}
#else
TEST(CublasApi, IsThatOfTheHeaders) {
  GTEST_SKIP() << "there are no headers of cuBLAS";
}
#endif
