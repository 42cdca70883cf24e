// What a check computes of a buffer (format/payload_check.h), once for the GPU and once for
// processors: check_kernel.cu is compiled to interpose/payload/check_kernel.ptx
// (scripts/check-kernel), and simgpu runs the same as its kernel.
#pragma once

#include <cstdint>

#include "format/payload_check.h"

#ifdef __CUDA__
#define TT_ON_GPU __attribute__((device))
#else
#define TT_ON_GPU
#endif

namespace traintrace::check {

// As ncclDataType_t.
enum ElementType : uint32_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
  kElementTypes = 12,
};

TT_ON_GPU constexpr uint32_t bytes_of(uint32_t type) {
  return type == kInt8 || type == kUint8 || type == kFloat8e4m3 || type == kFloat8e5m2 ? 1
         : type == kFloat16 || type == kBfloat16                                       ? 2
         : type == kInt32 || type == kUint32 || type == kFloat32                       ? 4
                                                                                       : 8;
}

// The elements of one part that one lane of many looks at: of one row, if `step` is a multiple of
// kPayloadRows.
struct Share {
  const void* elements;
  uint64_t count;  // of the whole part
  uint64_t first;
  uint64_t step;
};

TT_ON_GPU inline double real_of_bits(uint64_t bits) {
  return __builtin_bit_cast(double, bits);
}

// Of a type with that many bits of exponent and mantissa, below its sign: the same number as a
// double.  Of float8e4m3 the highest exponent is an ordinary one but for its last mantissa.
TT_ON_GPU inline double widened(uint64_t bits, uint32_t exponent_bits, uint32_t mantissa_bits) {
  const uint64_t mantissa = bits & ((1U << mantissa_bits) - 1);
  const uint32_t top = (1U << exponent_bits) - 1;
  const auto exponent = static_cast<uint32_t>(bits >> mantissa_bits) & top;
  const bool negative = (bits >> (exponent_bits + mantissa_bits) & 1) != 0;
  const bool saturates = exponent_bits == 4;
  const int bias = static_cast<int>(top >> 1);
  double value = 0;
  if (exponent == top && (!saturates || mantissa == (1U << mantissa_bits) - 1)) {
    value = real_of_bits(uint64_t{0x7ff} << 52 | (saturates ? 1 : mantissa));
  } else {
    const int scale =
        (exponent == 0 ? 1 : static_cast<int>(exponent)) - bias - static_cast<int>(mantissa_bits);
    const uint64_t whole = exponent == 0 ? mantissa : mantissa | uint64_t{1} << mantissa_bits;
    value = static_cast<double>(whole) * real_of_bits(static_cast<uint64_t>(scale + 1023) << 52);
  }
  return negative ? -value : value;
}

template <class Number>
TT_ON_GPU inline Number element_of(const Share& share, uint64_t index) {
  return static_cast<const Number*>(share.elements)[index];
}

struct Element {
  uint64_t bits;
  double value;
};

TT_ON_GPU inline Element element_at(const Share& share, uint32_t type, uint64_t index) {
  switch (type) {
    case kInt8: {
      const auto value = element_of<int8_t>(share, index);
      return {static_cast<uint8_t>(value), static_cast<double>(value)};
    }
    case kUint8: {
      const auto value = element_of<uint8_t>(share, index);
      return {value, static_cast<double>(value)};
    }
    case kInt32: {
      const auto value = element_of<int32_t>(share, index);
      return {static_cast<uint32_t>(value), static_cast<double>(value)};
    }
    case kUint32: {
      const auto value = element_of<uint32_t>(share, index);
      return {value, static_cast<double>(value)};
    }
    case kInt64: {
      const auto value = element_of<int64_t>(share, index);
      return {static_cast<uint64_t>(value), static_cast<double>(value)};
    }
    case kUint64: {
      const auto value = element_of<uint64_t>(share, index);
      return {value, static_cast<double>(value)};
    }
    case kFloat16: {
      const auto bits = element_of<uint16_t>(share, index);
      return {bits, widened(bits, 5, 10)};
    }
    case kBfloat16: {
      const auto bits = element_of<uint16_t>(share, index);
      return {bits, widened(bits, 8, 7)};
    }
    case kFloat8e4m3: {
      const auto bits = element_of<uint8_t>(share, index);
      return {bits, widened(bits, 4, 3)};
    }
    case kFloat8e5m2: {
      const auto bits = element_of<uint8_t>(share, index);
      return {bits, widened(bits, 5, 2)};
    }
    case kFloat32: {
      const auto bits = element_of<uint32_t>(share, index);
      return {bits, static_cast<double>(__builtin_bit_cast(float, bits))};
    }
    default: {
      const auto bits = element_of<uint64_t>(share, index);
      return {bits, real_of_bits(bits)};
    }
  }
}

// Of what one lane looks at, or several together.
struct LaneTally {
  format::PayloadTally tally;
  double signed_sum;
};

TT_ON_GPU inline void add(LaneTally& lane, const Element& element, uint64_t index) {
  format::PayloadTally& tally = lane.tally;
  const double absolute = element.value < 0 ? -element.value : element.value;
  tally.hash += format::payload_hash(index, element.bits);
  if (element.value != element.value) {
    ++tally.nans;
  } else if (absolute > 1.7976931348623157e308) {
    ++tally.infinities;
  } else {
    tally.largest = absolute > tally.largest ? absolute : tally.largest;
    tally.sum += element.value;
    tally.absolute_sum += absolute;
    tally.square_sum += element.value * element.value;
    lane.signed_sum +=
        real_of_bits(__builtin_bit_cast(uint64_t, element.value) ^ format::payload_sign(index));
  }
}

TT_ON_GPU inline void join(format::PayloadTally& tally, const format::PayloadTally& other) {
  tally.nans += other.nans;
  tally.infinities += other.infinities;
  tally.largest = other.largest > tally.largest ? other.largest : tally.largest;
  tally.sum += other.sum;
  tally.absolute_sum += other.absolute_sum;
  tally.square_sum += other.square_sum;
  tally.hash += other.hash;
}

TT_ON_GPU inline void join(LaneTally& lane, const LaneTally& other) {
  join(lane.tally, other.tally);
  lane.signed_sum += other.signed_sum;
}

TT_ON_GPU inline format::PayloadRow row_of(const LaneTally& lane) {
  return {lane.signed_sum, lane.tally.square_sum};
}

TT_ON_GPU inline LaneTally tally_of(const Share& share, uint32_t type) {
  LaneTally lane = {};
  for (uint64_t index = share.first; index < share.count; index += share.step) {
    add(lane, element_at(share, type, index), index);
  }
  return lane;
}

// One launch: `parts` equal parts of `count` elements that follow one another, each looked at by
// `blocks` blocks; a block leaves one cell.
struct Launch {
  const void* elements;
  uint64_t count;
  uint32_t type;
  uint32_t parts;
  uint32_t blocks;
  uint32_t reserved;
  format::PayloadCell* cells;
  uint64_t stamp;
};

// What lane `lane` of `lanes` in block `block` of parts x blocks has.
TT_ON_GPU inline Share share_of(const Launch& launch, uint32_t block, uint32_t lane,
                                uint32_t lanes) {
  const uint64_t part = block / launch.blocks;
  const auto* const first =
      static_cast<const char*>(launch.elements) + part * launch.count * bytes_of(launch.type);
  return {first, launch.count, uint64_t{block % launch.blocks} * lanes + lane,
          uint64_t{launch.blocks} * lanes};
}

// What a block leaves, on a processor: with one lane for each row.
TT_ON_GPU inline void fill(format::PayloadCell& cell, const Launch& launch, uint32_t block) {
  cell.tally = {};
  for (uint32_t row = 0; row < format::kPayloadRows; ++row) {
    const LaneTally lane =
        tally_of(share_of(launch, block, row, format::kPayloadRows), launch.type);
    join(cell.tally, lane.tally);
    cell.rows[row] = row_of(lane);
  }
}

}  // namespace traintrace::check
