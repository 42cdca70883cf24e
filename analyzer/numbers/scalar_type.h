// What the bytes of a fetched scalar are.  The copy does not say: an int32 of -1 is a NaN as a
// float, and INT_MAX is CUDA's own NaN.  So the values of one place decide together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace traintrace {

enum class ScalarType : uint8_t {
  kUnknown,  // also all of 2 bytes: bfloat16, half and short cannot be told apart
  kFlag,     // one byte, 0 or 1
  kInteger,
  kFloat32,
  kFloat64,
};
std::string_view name_of(ScalarType type);

struct TypeOfSeries {
  ScalarType type = ScalarType::kUnknown;
  // Floats: from this value on, those before prove the type, so that a NaN is one and no integer.
  // The number of values: nothing proves it.
  size_t proven_from = 0;
};

// `values`, in the order in which they were fetched, are of `bytes` bytes each.
TypeOfSeries type_of_series(std::span<const uint64_t> values, uint64_t bytes);

// Infinity, or a NaN as processors and CUDA make it; false for other types than floats.
bool is_nonfinite(ScalarType type, uint64_t bits);
// 0 for kUnknown.
double number_of(ScalarType type, uint64_t bits, uint64_t bytes);
// "0.6931472", "NaN", "-Inf", "17"; hexadecimal if the type is not known.
std::string scalar_text(ScalarType type, uint64_t bits, uint64_t bytes);

}  // namespace traintrace
