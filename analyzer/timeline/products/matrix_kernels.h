// What the name of a kernel says of the way in which it multiplies matrices.
#pragma once

#include <cstdint>
#include <string_view>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

enum class Cores : uint8_t { kUnknown, kCuda, kTensor };

struct MatrixKernel {
  Cores cores = Cores::kUnknown;
  ElementType type = ElementType::kUnknown;  // of the operands
  int alignment = 0;  // in elements, of the operand that has the smaller one; 0: not said
};

// Of a plain product (cuBLAS, CUTLASS); a name that says nothing of it, or is that of a
// convolution or of attention, gives nothing known.
MatrixKernel matrix_kernel(std::string_view name);

// Whether it multiplies matrices in whatever way: products, convolutions, attention.
bool multiplies_matrices(std::string_view name);

}  // namespace traintrace
