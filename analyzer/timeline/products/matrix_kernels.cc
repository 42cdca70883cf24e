#include "analyzer/timeline/products/matrix_kernels.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <span>
#include <string>

namespace traintrace {
namespace {

bool has(std::string_view name, std::string_view word) {
  return name.find(word) != name.npos;
}

bool has_any(std::string_view name, std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return has(name, word); });
}

// Not within a longer word: "volta_sgemm_64x32" has sgemm, "fbgemm" and "gcgemm" have none.
bool has_word(std::string_view name, std::string_view word) {
  for (size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1)) {
    if (at == 0 || std::isalnum(static_cast<unsigned char>(name[at - 1])) == 0) {
      return true;
    }
  }
  return false;
}

// Convolutions, transforms and attention have products inside, and reasons of their own.
constexpr std::string_view kOtherWords[] = {"conv",     "cudnn", "wgrad", "dgrad", "fprop",
                                            "winograd", "fmha",  "flash", "attn",  "attention"};
// Instructions: s1688 is 16 x 8 x 8 into float, h884 8 x 8 x 4 into half.
constexpr std::string_view kTensorWords[] = {
    "tensorop", "tensor16x8", "s1688", "s16816", "s161616", "h1688",
    "h16816",   "s884",       "h884",  "i8816",  "i16832",  "hmma",
    "imma",     "dmma",       "wgmma", "tf32",   "nvjet",   "warpgroup"};
constexpr std::string_view kHalfWords[] = {"fp16", "_f16", "f16f16", "half"};
constexpr std::string_view kBfloatWords[] = {"bf16", "bfloat16"};
constexpr std::string_view kWholeWords[] = {"gemm",   "nvjet", "matmul",   "xmma",       "cutlass",
                                            "s16816", "s1688", "wgmma",    "triton_tem", "cijk",
                                            "fmha",   "flash", "attention"};
// They move, sum or prepare what others multiply.
constexpr std::string_view kBesideWords[] = {"nchwTo", "nhwcTo", "fbgemm", "reduce", "Reduce"};
constexpr std::string_view kConvolutionWords[] = {"conv",   "scudnn", "hcudnn",
                                                  "wgrad_", "dgrad_", "winograd"};

ElementType type_of(std::string_view name) {
  return has_any(name, kBfloatWords) ? ElementType::kBfloat16
         : has_any(name, kHalfWords) ? ElementType::kHalf
                                     : ElementType::kSingle;
}

int alignment_of(std::string_view name) {
  constexpr std::string_view kWord = "_align";
  const size_t at = name.find(kWord);
  int alignment = 0;
  if (at != name.npos) {
    std::from_chars(name.data() + at + kWord.size(), name.data() + name.size(), alignment);
  }
  return std::max(alignment, 0);
}

// "simt_sgemm", "simt_hgemm"; double and complex ones are as they have to be.
MatrixKernel cuda_kernel(std::string_view name) {
  if (has_word(name, "sgemm") || has_word(name, "sgemmEx") || has(name, "_ffma_")) {
    return {Cores::kCuda, type_of(name), 0};
  }
  return has_word(name, "hgemm") ? MatrixKernel{Cores::kCuda, ElementType::kHalf, 0}
                                 : MatrixKernel{};
}

}  // namespace

MatrixKernel matrix_kernel(std::string_view name) {
  if (has_any(name, kOtherWords) || !(has(name, "gemm") || has(name, "nvjet"))) {
    return {};
  }
  if (!has_any(name, kTensorWords)) {
    return cuda_kernel(name);
  }
  // Without an ending "s1688" takes TF32 from Ampere on, and "s884" half before.
  const bool unsaid = has(name, "nvjet") || has(name, "884") || has(name, "dmma") ||
                      has(name, "imma") || has(name, "i8816") || has(name, "i16832");
  const ElementType type = type_of(name);
  return {Cores::kTensor, unsaid && type == ElementType::kSingle ? ElementType::kUnknown : type,
          alignment_of(name)};
}

bool multiplies_matrices(std::string_view name) {
  return !has_any(name, kBesideWords) &&
         (has_any(name, kWholeWords) || has_any(name, kConvolutionWords));
}

}  // namespace traintrace
