// PyTorch's element types by the names and numbers that its kernels know them by.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace simgpu::torch {

using Half = __half;
using BFloat16 = __nv_bfloat16;

template <class T>
inline constexpr bool kIsSmall = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
// What PyTorch calculates in for elements of type T (at::opmath_type).
template <class T>
using Wide = std::conditional_t<kIsSmall<T>, float, T>;

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kIsSmall<To> || kIsSmall<From>) {
    return static_cast<To>(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

// c10::ScalarType; calls `function` with a value of that type.
template <class Function>
void with_type(int8_t scalar_type, Function&& function) {
  switch (scalar_type) {
    case 0:
      return function(uint8_t{});
    case 1:
      return function(int8_t{});
    case 2:
      return function(int16_t{});
    case 3:
      return function(int32_t{});
    case 4:
      return function(int64_t{});
    case 5:
      return function(Half{});
    case 6:
      return function(float{});
    case 7:
      return function(double{});
    case 11:
      return function(bool{});
    case 15:
      return function(BFloat16{});
    default:
      return;
  }
}

template <class T>
T load(const char* from) {
  return *reinterpret_cast<const T*>(from);
}
template <class T>
T load_as(int8_t scalar_type, const char* from) {
  T out{};
  with_type(scalar_type, [&](auto type) { out = convert<T>(load<decltype(type)>(from)); });
  return out;
}
template <class T>
void store_as(int8_t scalar_type, char* to, T value) {
  with_type(scalar_type, [&](auto type) {
    *reinterpret_cast<decltype(type)*>(to) = convert<decltype(type)>(value);
  });
}

}  // namespace simgpu::torch
