#include "nccl/reduce.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace simgpu::nccl {
namespace {

template <class T>
struct Arithmetic {
  using Type = T;
  static T load(const unsigned char* at) {
    T value;
    memcpy(&value, at, sizeof value);
    return value;
  }
  static void store(unsigned char* at, T value) { memcpy(at, &value, sizeof value); }
};

template <>
struct Arithmetic<__half> {
  using Type = float;
  static float load(const unsigned char* at) {
    return __half2float(Arithmetic<__half_raw>::load(at));
  }
  static void store(unsigned char* at, float value) {
    Arithmetic<__half_raw>::store(at, __float2half(value));
  }
};

template <>
struct Arithmetic<__nv_bfloat16> {
  using Type = float;
  static float load(const unsigned char* at) {
    return __bfloat162float(Arithmetic<__nv_bfloat16_raw>::load(at));
  }
  static void store(unsigned char* at, float value) {
    Arithmetic<__nv_bfloat16_raw>::store(at, __float2bfloat16(value));
  }
};

template <__nv_fp8_interpretation_t kFormat>
struct Fp8 {
  using Type = float;
  static float load(const unsigned char* at) {
    return __half2float(__nv_cvt_fp8_to_halfraw(*at, kFormat));
  }
  static void store(unsigned char* at, float value) {
    *at = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, kFormat);
  }
};
template <>
struct Arithmetic<__nv_fp8_e4m3> : Fp8<__NV_E4M3> {};
template <>
struct Arithmetic<__nv_fp8_e5m2> : Fp8<__NV_E5M2> {};

// Integers wrap around, so they are added and multiplied without sign.
template <class T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}
template <class T>
T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

template <class T, class Body>
void for_each(unsigned char* into, const unsigned char* other, size_t count, Body body) {
  using A = Arithmetic<T>;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = i * sizeof(T);
    A::store(into + at, body(A::load(into + at), A::load(other + at)));
  }
}

template <class T>
void combine_as(Reduction::Kind kind, unsigned char* into, const unsigned char* other,
                size_t count) {
  using V = typename Arithmetic<T>::Type;
  switch (kind) {
    case Reduction::Kind::kProd:
      return for_each<T>(into, other, count, [](V a, V b) { return multiply<V>(a, b); });
    case Reduction::Kind::kMax:
      return for_each<T>(into, other, count, [](V a, V b) { return std::max(a, b); });
    case Reduction::Kind::kMin:
      return for_each<T>(into, other, count, [](V a, V b) { return std::min(a, b); });
    default:
      return for_each<T>(into, other, count, [](V a, V b) { return add<V>(a, b); });
  }
}

template <class T>
void scale_as(const unsigned char* scalar, unsigned char* into, const unsigned char* own,
              size_t count) {
  using A = Arithmetic<T>;
  const auto factor = A::load(scalar);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = i * sizeof(T);
    A::store(into + at, multiply<typename A::Type>(A::load(own + at), factor));
  }
}

template <class T>
void divide_as(uint64_t divisor, unsigned char* into, size_t count) {
  using A = Arithmetic<T>;
  if constexpr (std::is_integral_v<T>) {
    for (size_t i = 0; i < count; ++i) {
      unsigned char* at = into + i * sizeof(T);
      A::store(at, static_cast<T>(A::load(at) / static_cast<T>(divisor)));
    }
  }
}

template <class Body>
void with_type(ncclDataType_t type, Body body) {
  switch (type) {
    case ncclInt8:
      return body(int8_t{});
    case ncclUint8:
      return body(uint8_t{});
    case ncclInt32:
      return body(int32_t{});
    case ncclUint32:
      return body(uint32_t{});
    case ncclInt64:
      return body(int64_t{});
    case ncclUint64:
      return body(uint64_t{});
    case ncclFloat16:
      return body(__half{});
    case ncclFloat32:
      return body(float{});
    case ncclFloat64:
      return body(double{});
    case ncclBfloat16:
      return body(__nv_bfloat16{});
    case ncclFloat8e4m3:
      return body(__nv_fp8_e4m3{});
    case ncclFloat8e5m2:
      return body(__nv_fp8_e5m2{});
    default:
      return;
  }
}

}  // namespace

size_t type_bytes(ncclDataType_t type) {
  size_t bytes = 0;
  with_type(type, [&](auto value) { bytes = sizeof value; });
  return bytes;
}

bool is_float(ncclDataType_t type) {
  bool result = false;
  with_type(type, [&](auto value) { result = !std::is_integral_v<decltype(value)>; });
  return result;
}

void store_scalar(ncclDataType_t type, double value, unsigned char* into) {
  with_type(type, [&](auto element) {
    using A = Arithmetic<decltype(element)>;
    A::store(into, static_cast<typename A::Type>(value));
  });
}

void contribute(const Reduction& reduction, ncclDataType_t type, void* into, const void* own,
                size_t count) {
  if (reduction.kind != Reduction::Kind::kPreMulSum) {
    if (into != own && count > 0) {
      memmove(into, own, count * type_bytes(type));
    }
    return;
  }
  const void* scalar = reduction.device_scalar ? reduction.device_scalar : reduction.scalar;
  with_type(type, [&](auto value) {
    scale_as<decltype(value)>(static_cast<const unsigned char*>(scalar),
                              static_cast<unsigned char*>(into),
                              static_cast<const unsigned char*>(own), count);
  });
}

void combine(const Reduction& reduction, ncclDataType_t type, void* into, const void* other,
             size_t count) {
  with_type(type, [&](auto value) {
    combine_as<decltype(value)>(reduction.kind, static_cast<unsigned char*>(into),
                                static_cast<const unsigned char*>(other), count);
  });
}

void conclude(const Reduction& reduction, ncclDataType_t type, void* into, size_t count) {
  if (reduction.kind != Reduction::Kind::kSumPostDiv) {
    return;
  }
  with_type(type, [&](auto value) {
    divide_as<decltype(value)>(reduction.divisor, static_cast<unsigned char*>(into), count);
  });
}

}  // namespace simgpu::nccl
