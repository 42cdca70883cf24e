// Where the elements of strided tensors lie: OffsetCalculator.cuh of PyTorch 2.6.
#pragma once
#include <array>
#include <cstdint>

namespace simgpu::torch {

template <int Tensors>
struct Offsets {
  static constexpr int kMaxDims = 25;
  struct Divider {
    uint32_t divisor, magic, shift;
  };

  std::array<uint32_t, Tensors> at(uint32_t index) const {
    std::array<uint32_t, Tensors> out{};
    for (int dim = 0; dim < dims; ++dim) {
      const uint32_t step = index % sizes[dim].divisor;
      index /= sizes[dim].divisor;
      for (int tensor = 0; tensor < Tensors; ++tensor) {
        out[tensor] += step * strides[dim][tensor];
      }
    }
    return out;
  }

  int dims;
  Divider sizes[kMaxDims];
  uint32_t strides[kMaxDims][Tensors];
};

}  // namespace simgpu::torch
