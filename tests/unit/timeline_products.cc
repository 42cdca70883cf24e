// uses: analyzer
#include "analyzer/timeline/products/products.h"

#include <gtest/gtest.h>

#include "analyzer/timeline/products/matrix_kernels.h"
#include "analyzer/timeline/products/peak_rates.h"

namespace traintrace {
namespace {

TEST(MatrixKernels, SaysWhatNamesSay) {
  struct Case {
    std::string_view name;
    Cores cores;
    ElementType type = ElementType::kUnknown;
    int alignment = 0;
  };
  // Names from real traces and from libcublas.
  const Case cases[] = {
      {"ampere_sgemm_32x32_sliced1x4_tn", Cores::kCuda, ElementType::kSingle},
      {"volta_sgemm_128x32_nt", Cores::kCuda, ElementType::kSingle},
      {"void magma_sgemmEx_kernel<float, float, float>()", Cores::kCuda, ElementType::kSingle},
      {"void cutlass::Kernel<cutlass_80_simt_sgemm_128x64_8x5_nt_align1>()", Cores::kCuda,
       ElementType::kSingle},
      {"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4",
       Cores::kCuda, ElementType::kSingle},
      {"volta_fp16_sgemm_fp16_128x64_tn", Cores::kCuda, ElementType::kHalf},
      {"maxwell_hgemm_256x128_nt", Cores::kCuda, ElementType::kHalf},
      {"void cutlass::Kernel<cutlass_80_simt_hgemm_128x64_8x5_nt_align1>()", Cores::kCuda,
       ElementType::kHalf},
      {"ampere_bf16_sgemm_bf16_64x64_nn", Cores::kCuda, ElementType::kBfloat16},
      {"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>()",
       Cores::kTensor, ElementType::kSingle, 4},
      {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2>()",
       Cores::kTensor, ElementType::kBfloat16, 2},
      {"void cutlass::Kernel2<cutlass_80_wmma_tensorop_f16_s161616gemm_f16_32x32_128x2_tn_align8>",
       Cores::kTensor, ElementType::kHalf, 8},
      {"sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64x16_tensor16x8x8_execute_kernel",
       Cores::kTensor, ElementType::kSingle},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1",
       Cores::kTensor, ElementType::kBfloat16},
      {"nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNN", Cores::kTensor},
      {"volta_h884gemm_256x64_ldg8_nn", Cores::kTensor},
      {"volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_tn", Cores::kTensor, ElementType::kHalf},
      {"void cutlass::Kernel<cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1>()", Cores::kTensor,
       ElementType::kUnknown, 1},
      // Nothing is said of these.
      {"ampere_dgemm_128x64_tn", Cores::kUnknown},
      {"ampere_cgemm_64x64_nt", Cores::kUnknown},
      {"ampere_gcgemm_64x64_nt", Cores::kUnknown},
      {"void gemmSN_TN_kernel<float, 128, 16, 2, 4, 8, 9, false>()", Cores::kUnknown},
      {"void gemv2T_kernel_val<int, int, float, float, float, float>()", Cores::kUnknown},
      {"void fbgemm_gpu::permute_2D_lengths_kernel<int>()", Cores::kUnknown},
      {"cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1", Cores::kUnknown},
      {"void implicit_convolve_sgemm<float, float, 1024>()", Cores::kUnknown},
      {"fmha_cutlassF_f32_aligned_64x64_rf_sm80", Cores::kUnknown},
      {"", Cores::kUnknown},
      {"sgemm", Cores::kCuda, ElementType::kSingle},
      {"tensorop_gemm_align", Cores::kTensor, ElementType::kSingle},
      {"tensorop_gemm_align99999999999999999999", Cores::kTensor, ElementType::kSingle},
  };
  for (const Case& each : cases) {
    const MatrixKernel kernel = matrix_kernel(each.name);
    EXPECT_EQ(static_cast<int>(kernel.cores), static_cast<int>(each.cores)) << each.name;
    EXPECT_EQ(name_of(kernel.type), name_of(each.type)) << each.name;
    EXPECT_EQ(kernel.alignment, each.alignment) << each.name;
  }
}

TEST(MatrixKernels, KnowsWhatMultiplies) {
  for (const char* name :
       {"ampere_sgemm_32x32_sliced1x4_tn", "nvjet_tst_128x256", "volta_scudnn_128x64_relu_small",
        "void cudnn::cnn::wgrad_alg0_engine<float, 128>()", "triton_tem_fused_mm_3",
        "void pytorch_flash::flash_fwd_kernel<>()", "void gemmSN_TN_kernel<float>()",
        "void cudnn::winograd_nonfused::winogradForwardOutput4x4<float, float>()"}) {
    EXPECT_TRUE(multiplies_matrices(name)) << name;
  }
  for (const char* name :
       {"void cudnn::ops::nchwToNhwcKernel<float>()", "void fbgemm_gpu::permute_2D_data_kernel<>()",
        "void cublasLt::splitKreduce_kernel<32, 16>()", "vectorized_elementwise_kernel",
        "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512>()", ""}) {
    EXPECT_FALSE(multiplies_matrices(name)) << name;
  }
}

TEST(DeviceRates, GoByTheNameOfTheDevice) {
  const auto half = [](std::string_view name) {
    const DeviceRates* const peaks = peaks_of(name);
    return peaks == nullptr ? 0 : peaks->half;
  };
  EXPECT_EQ(half("Tesla V100-SXM2-32GB"), 125'000);
  EXPECT_EQ(half("Tesla V100-PCIE-16GB"), 112'000);
  EXPECT_EQ(half("Tesla T4"), 65'000);
  EXPECT_EQ(half("NVIDIA A100-SXM4-80GB"), 312'000);
  EXPECT_EQ(half("NVIDIA A100-PG509-200"), 312'000);
  EXPECT_EQ(half("NVIDIA L4"), 121'000);
  EXPECT_EQ(half("NVIDIA L40"), 181'000);
  EXPECT_EQ(half("NVIDIA L40S"), 362'000);
  EXPECT_EQ(half("NVIDIA H100 80GB HBM3"), 989'500);
  EXPECT_EQ(half("NVIDIA H100 PCIe"), 756'500);
  EXPECT_EQ(half("NVIDIA H100 NVL"), 835'500);
  EXPECT_EQ(half("NVIDIA H200"), 989'500);
  EXPECT_EQ(half("NVIDIA H200 NVL"), 835'500);
  for (const char* name :
       {"", "NVIDIA H100", "NVIDIA A100X", "NVIDIA A10G", "NVIDIA T400 4GB", "NVIDIA GH200 480GB",
        "Tesla V100-DGXS-32GB", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "GRID A100-10C",
        "NVIDIA A40-48Q", "simgpu", "NVIDIA B200X"}) {
    EXPECT_EQ(peaks_of(name), nullptr) << name;
  }
}

TEST(DeviceRates, DifferByTypeAndCores) {
  const DeviceRates& a100 = *peaks_of("NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(peak_of(a100, ElementType::kSingle, false), 19'500);
  EXPECT_EQ(peak_of(a100, ElementType::kSingle, true), 156'000);
  EXPECT_EQ(peak_of(a100, ElementType::kDouble, true), 19'500);
  EXPECT_EQ(peak_of(a100, ElementType::kBfloat16, true), 312'000);
  EXPECT_EQ(peak_of(a100, ElementType::kInt8, true), 624'000);
  EXPECT_EQ(peak_of(a100, ElementType::kFp8, true), 0);
  EXPECT_EQ(peak_of(a100, ElementType::kUnknown, true), 0);
}

TEST(MatrixProduct, CountsItsOperations) {
  MatrixProduct product;
  EXPECT_FALSE(flops_of(product));
  product = {.batch = 3, .m = 5, .n = 7, .k = 11, .type = ElementType::kHalf};
  EXPECT_EQ(flops_of(product), 2 * 3 * 5 * 7 * 11);
  EXPECT_EQ(bytes_of(product), 2 * 3 * (5 * 11 + 11 * 7 + 5 * 7));
  EXPECT_EQ(shape_text(product), "3 x [5, 11] x [11, 7] of half");
  product.batch = 1;
  EXPECT_EQ(shape_text(product), "[5, 11] x [11, 7] of half");
  product.type = ElementType::kUnknown;  // complex numbers take four times as many
  EXPECT_FALSE(flops_of(product));
  product.type = ElementType::kSingle;
  product.m = product.n = product.k = int64_t{1} << 30;
  EXPECT_FALSE(flops_of(product));
}

TEST(ElementTypes, HaveNames) {
  for (const ElementType type :
       {ElementType::kUnknown, ElementType::kDouble, ElementType::kSingle, ElementType::kHalf,
        ElementType::kBfloat16, ElementType::kFp8, ElementType::kInt8}) {
    EXPECT_EQ(type_of_name(name_of(type)), type);
  }
  EXPECT_EQ(type_of_name("quad"), ElementType::kUnknown);
}

}  // namespace
}  // namespace traintrace
