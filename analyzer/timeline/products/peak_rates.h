// What GPUs can do at most, by their makers' data sheets.
#pragma once

#include <string_view>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

// In 10^9 operations in a second (a multiplication and an addition are two), without sparsity;
// 0: it cannot, or it is not known.
struct DeviceRates {
  double fp64 = 0;  // tensor cores where they can
  double fp32 = 0;  // CUDA cores
  double tf32 = 0;  // tensor cores from here on
  double half = 0;
  double bfloat16 = 0;
  double fp8 = 0;
  double int8 = 0;
  double memory = 0;  // 10^9 bytes in a second
};

// By the name that CUDA gives the device; null: not in the table.
const DeviceRates* peaks_of(std::string_view device_name);

// Of operands of that type; floats by tensor cores are TF32.
double peak_of(const DeviceRates& peaks, ElementType type, bool tensor_cores);

}  // namespace traintrace
