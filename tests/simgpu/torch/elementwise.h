// The shapes in which PyTorch 2.6 launches a function over the elements of tensors (CUDALoops.cuh).
// A function here has PyTorch's layout, for it comes as a kernel argument, and does what PyTorch's
// does.
#pragma once
#include <simgpu.h>

#include <string>
#include <utility>

#include "torch/offsets.h"
#include "torch/scalar.h"

namespace simgpu::torch {

template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class F, class R, class... A>
struct Signature<R (F::*)(A...) const> {
  using Result = R;
  static constexpr int kArity = sizeof...(A);
  static constexpr int kTensors = kArity + 1;

  // `load(type, i)` gives the i-th argument.
  template <class Load>
  static R call(const F& function, Load&& load) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return function(load(A{}, static_cast<int>(I))...);
    }
    (std::index_sequence_for<A...>{});
  }
};

template <class F>
using Data = std::array<char*, Signature<F>::kTensors>;

struct Nothing {};
template <int N>
struct Casts {
  std::array<int8_t, (N > 0 ? N : 1)> types;
  std::array<uint32_t, (N > 0 ? N : 1)> bytes;
};
// What gpu_kernel_impl's lambdas capture, in the order of first use.
template <class F>
struct Strided {
  Offsets<Signature<F>::kTensors> offsets;
  Data<F> data;
  F function;
};
template <class F>
struct StridedCast {
  Offsets<Signature<F>::kTensors> offsets;
  Data<F> data;
  F function;
  std::array<int8_t, Signature<F>::kTensors> types;
};

// vectorized_elementwise_kernel, and unrolled_elementwise_kernel without casts.
template <class F>
void contiguous(Grid, int count, F function, Data<F> data) {
  for (int64_t i = 0; i < count; ++i) {
    const auto value = Signature<F>::call(function, [&](auto type, int argument) {
      return load<decltype(type)>(data[argument + 1] + i * sizeof type);
    });
    reinterpret_cast<typename Signature<F>::Result*>(data[0])[i] = value;
  }
}

template <class F>
void contiguous_uncast(Grid grid, int count, F function, Data<F> data, Nothing, Nothing, Nothing,
                       Nothing) {
  contiguous<F>(grid, count, function, data);
}

template <class F>
void contiguous_cast(Grid, int count, F function, Data<F> data, Nothing, Nothing,
                     Casts<Signature<F>::kArity> loads, Casts<1> stores) {
  for (int64_t i = 0; i < count; ++i) {
    const auto value = Signature<F>::call(function, [&](auto type, int argument) {
      return load_as<decltype(type)>(loads.types[argument],
                                     data[argument + 1] + i * loads.bytes[argument]);
    });
    store_as(stores.types[0], data[0] + i * stores.bytes[0], value);
  }
}

template <class F>
void strided(Grid, int count, Strided<F> launch) {
  for (int i = 0; i < count; ++i) {
    const auto at = launch.offsets.at(i);
    const auto value = Signature<F>::call(launch.function, [&](auto type, int argument) {
      return load<decltype(type)>(launch.data[argument + 1] + at[argument + 1]);
    });
    *reinterpret_cast<typename Signature<F>::Result*>(launch.data[0] + at[0]) = value;
  }
}

template <class F>
void strided_cast(Grid, int count, StridedCast<F> launch) {
  for (int i = 0; i < count; ++i) {
    const auto at = launch.offsets.at(i);
    const auto value = Signature<F>::call(launch.function, [&](auto type, int argument) {
      return load_as<decltype(type)>(launch.types[argument + 1],
                                     launch.data[argument + 1] + at[argument + 1]);
    });
    store_as(launch.types[0], launch.data[0] + at[0], value);
  }
}

// `name` is how the function's type stands in the mangled name of a kernel, with '*' where that
// differs by kernel.
template <class F>
void elementwise(const std::string& name) {
  kernel<int, F, Data<F>>(("*29vectorized_elementwise_kernelILi*E" + name + "St5array*").c_str(),
                          contiguous<F>);
  kernel<int, F, Data<F>, Nothing, Nothing, Nothing, Nothing>(
      ("*27unrolled_elementwise_kernelI" + name + "St5array*LoadWithoutCast*").c_str(),
      contiguous_uncast<F>);
  kernel<int, F, Data<F>, Nothing, Nothing, Casts<Signature<F>::kArity>, Casts<1>>(
      ("*27unrolled_elementwise_kernelI" + name + "St5array*LoadWithCast*").c_str(),
      contiguous_cast<F>);
  kernel<int, Strided<F>>(("*22gpu_kernel_impl_nocastI" + name + "EEv*").c_str(), strided<F>);
  kernel<int, StridedCast<F>>(("*15gpu_kernel_implI" + name + "EEv*").c_str(), strided_cast<F>);
}

}  // namespace simgpu::torch
