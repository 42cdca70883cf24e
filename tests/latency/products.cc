#include "products.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <cublas_v2.h>

#include "common/check.h"

namespace {

#define BLAS_CHECK(call) CHECK((call) == CUBLAS_STATUS_SUCCESS, "%s", #call)

// 10^9 operations in a second, which are operations in a ns.
constexpr double kPeakSingle = 67'000;
constexpr double kPeakTf32 = 494'500;
constexpr double kPeakHalf = 989'500;

double peak_of(const Products& products) {
  return products.half ? kPeakHalf : products.tf32 ? kPeakTf32 : kPeakSingle;
}

class Multiplier {
 public:
  Multiplier(const Products& products, cudaStream_t stream) : products_(products), stream_(stream) {
    BLAS_CHECK(cublasCreate(&handle_));
    BLAS_CHECK(cublasSetStream(handle_, stream));
    if (products.tf32) {
      BLAS_CHECK(cublasSetMathMode(handle_, CUBLAS_TF32_TENSOR_OP_MATH));
    }
    if (products.by_lt) {
      const cudaDataType type = products.half ? CUDA_R_16F : CUDA_R_32F;
      const auto describe = [&](cublasLtMatrixLayout_t& layout, int64_t rows, int64_t columns) {
        BLAS_CHECK(cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(rows),
                                              static_cast<uint64_t>(columns), rows));
      };
      BLAS_CHECK(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
      const cublasOperation_t transposed = CUBLAS_OP_T;
      BLAS_CHECK(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA,
                                                &transposed, sizeof transposed));
      describe(a_, products.k, products.m);
      describe(b_, products.k, products.n);
      describe(d_, products.m, products.n);
    }
  }

  // Of matrices that are nowhere: SIMGPU_BLAS_COMPUTES=0.
  void multiply() const {
    const float one = 1;
    const float zero = 0;
    const int m = static_cast<int>(products_.m);
    const int n = static_cast<int>(products_.n);
    const int k = static_cast<int>(products_.k);
    if (products_.by_lt) {
      BLAS_CHECK(cublasLtMatmul(nullptr, operation_, &one, nullptr, a_, nullptr, b_, &zero, nullptr,
                                d_, nullptr, d_, nullptr, nullptr, 0, stream_));
    } else if (products_.half) {
      BLAS_CHECK(cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, nullptr, CUDA_R_16F,
                              m, nullptr, CUDA_R_16F, k, &zero, nullptr, CUDA_R_16F, m,
                              CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    } else {
      BLAS_CHECK(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, nullptr, m, nullptr,
                             k, &zero, nullptr, m));
    }
  }

 private:
  const Products products_;
  cudaStream_t stream_;
  cublasHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr;
  cublasLtMatrixLayout_t b_ = nullptr;
  cublasLtMatrixLayout_t d_ = nullptr;
};

}  // namespace

bool multiplies(Job& job, int steps, const Products& products) {
  const Multiplier multiplier(products, job.stream);
  Moments begins(steps);
  Moments ends(steps);
  int64_t count = 0;
  for (int i = 0; i < steps; ++i) {
    job.step(false);
    CUDA_CHECK(cudaEventRecord(begins.next(), job.stream));
    for (int each = 0; each < products.of_each_step; ++each) {
      multiplier.multiply();
      ++count;
    }
    CUDA_CHECK(cudaEventRecord(ends.next(), job.stream));
  }
  job.synchronise();
  const int64_t flops = 2 * products.m * products.n * products.k * count;
  say("slow_ns", ends.since(begins, 0));
  say("m", products.m);
  say("n", products.n);
  say("k", products.k);
  say("flops", flops);
  say("at_peak_ns", static_cast<int64_t>(static_cast<double>(flops) / peak_of(products)));
  return true;
}
#else
bool multiplies(Job&, int, const Products&) {
  return false;
}
#endif
