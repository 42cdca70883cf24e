// Of the arithmetic of the real types that NCCL sums up.
#pragma once

#include <cstdint>
#include <limits>

namespace traintrace {

struct Precision {
  double unit;      // largest relative error of one operation
  double tiniest;   // largest absolute error besides, of numbers near zero
  double greatest;  // finite
  // Between two numbers near zero, which all processors keep; 0: some make nothing of them.
  double step = 0;
};

// `type` is an ncclDataType_t for which is_real() holds.
inline Precision precision_of(int16_t type) {
  constexpr int16_t kHalf = 6, kSingle = 7, kDouble = 8;
  switch (type) {
    case kHalf:
      return {0x1p-11, 0x1p-24, 65504, 0x1p-24};
    case kSingle:
      return {0x1p-24, std::numeric_limits<float>::min(), std::numeric_limits<float>::max()};
    case kDouble:
      return {0x1p-53, std::numeric_limits<double>::min(), std::numeric_limits<double>::max()};
    default:  // bfloat16
      return {0x1p-8, std::numeric_limits<float>::min(), 0x1.fep127};
  }
}

}  // namespace traintrace
