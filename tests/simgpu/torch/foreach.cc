// multi_tensor_apply_kernel of PyTorch 2.6 (MultiTensorApply.cuh): a function over lists of float
// tensors, as optimizers use it.
#include <simgpu.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "torch/scalar.h"

namespace simgpu::torch {
namespace {

constexpr int64_t kChunk = 65536;
constexpr int kBlocks = 320;
constexpr int kTensors[] = {110, 64, 48, 36, 30};
constexpr int kTensorsWithNumbers[] = {96, 64, 48, 36, 30};

template <int Lists>
struct Tensors {
  static constexpr int kMost = kTensors[Lists - 1];
  float* data[Lists][kMost];
  int64_t elements[kMost];
  uint8_t block_to_tensor[kBlocks];
  int block_to_chunk[kBlocks];
  int first_tensor;
};

template <int Lists>
struct TensorsWithNumbers {
  static constexpr int kMost = kTensorsWithNumbers[Lists - 1];
  float* data[Lists][kMost];
  int64_t elements[kMost];
  float numbers[kMost];
  uint8_t block_to_tensor[kBlocks];
  int block_to_chunk[kBlocks];
};

// function(tensor, element) for all elements that the launch is about.
template <class List, class Function>
void visit(Grid grid, const List& list, Function&& function) {
  for (unsigned block = 0; block < grid.grid[0]; ++block) {
    const int tensor = list.block_to_tensor[block];
    const int64_t begin = list.block_to_chunk[block] * kChunk;
    const int64_t end = std::min(begin + kChunk, list.elements[tensor]);
    for (int64_t i = begin; i < end; ++i) {
      function(tensor, i);
    }
  }
}

// The result goes into list `Result`; with one list more than operands, that is a list of its own.
template <int Lists, int Result, float (*Op)(float, float)>
void with_number(Grid grid, Tensors<Lists> list, char, char, float number) {
  visit(grid, list,
        [&](int t, int64_t i) { list.data[Result][t][i] = Op(list.data[0][t][i], number); });
}
template <int Lists, int Result, float (*Op)(float, float)>
void with_numbers(Grid grid, TensorsWithNumbers<Lists> list, char, char) {
  visit(grid, list, [&](int t, int64_t i) {
    list.data[Result][t][i] = Op(list.data[0][t][i], list.numbers[t]);
  });
}
template <int Lists, int Result, float (*Op)(float, float)>
void with_number_on_device(Grid grid, Tensors<Lists> list, char, char, const float* number,
                           float alpha) {
  visit(grid, list, [&](int t, int64_t i) {
    list.data[Result][t][i] = Op(list.data[0][t][i], alpha * *number);
  });
}
template <int Lists, int Result, float (*Op)(float, float)>
void with_list(Grid grid, Tensors<Lists> list, char, char, float alpha) {
  visit(grid, list, [&](int t, int64_t i) {
    list.data[Result][t][i] = Op(list.data[0][t][i], alpha * list.data[1][t][i]);
  });
}
template <int Lists, int Result, float (*Op)(float)>
void unary(Grid grid, Tensors<Lists> list, char, char) {
  visit(grid, list, [&](int t, int64_t i) { list.data[Result][t][i] = Op(list.data[0][t][i]); });
}
// a + number * Op(b, c)
template <int Lists, int Result, float (*Op)(float, float)>
void pointwise(Grid grid, Tensors<Lists> list, char, char, float number) {
  visit(grid, list, [&](int t, int64_t i) {
    list.data[Result][t][i] =
        list.data[0][t][i] + number * Op(list.data[1][t][i], list.data[2][t][i]);
  });
}
template <int Lists, int Result, float (*Op)(float, float)>
void pointwise_numbers(Grid grid, TensorsWithNumbers<Lists> list, char, char) {
  visit(grid, list, [&](int t, int64_t i) {
    list.data[Result][t][i] =
        list.data[0][t][i] + list.numbers[t] * Op(list.data[1][t][i], list.data[2][t][i]);
  });
}
template <int Lists, int Result>
void lerp(Grid grid, Tensors<Lists> list, char, char, float weight) {
  visit(grid, list, [&](int t, int64_t i) {
    const float a = list.data[0][t][i];
    const float b = list.data[1][t][i];
    list.data[Result][t][i] =
        std::abs(weight) < 0.5F ? a + weight * (b - a) : b - (b - a) * (1 - weight);
  });
}

// What GradScaler multiplies gradients by, looking for values that are not finite.
struct Unscale {
  float* found_inf;
  const float* inverse_scale;
};
void unscale(Grid grid, Tensors<1> list, char, Unscale with) {
  visit(grid, list, [&](int t, int64_t i) {
    float& value = list.data[0][t][i];
    if (!std::isfinite(value)) {
      *with.found_inf = 1;
    }
    value *= *with.inverse_scale == 1 ? 1 : *with.inverse_scale;
  });
}
void update_scale(Grid, float* scale, int* growth, const float* found_inf, double growth_factor,
                  double backoff_factor, int interval) {
  if (*found_inf != 0) {
    *scale = static_cast<float>(*scale * backoff_factor);
    *growth = 0;
  } else if (++*growth == interval) {
    const float grown = static_cast<float>(*scale * growth_factor);
    *scale = std::isfinite(grown) ? grown : *scale;
    *growth = 0;
  }
}

float plus(float a, float b) {
  return a + b;
}
float minus(float a, float b) {
  return a - b;
}
float times(float a, float b) {
  return a * b;
}
float over(float a, float b) {
  return a / b;
}
float root(float a) {
  return std::sqrt(a);
}
float same(float a) {
  return a;
}

// `shape` is the functor's template arguments behind the element type: lists, operands, list of the
// result.
std::string named(const std::string& functor, const std::string& shape, const std::string& op) {
  return "*multi_tensor_apply_kernel*" + functor + "If" + shape + op + "*";
}

template <float (*Op)(float, float)>
void arithmetic(const std::string& op) {
  const std::string in_place = "Li1ELi1ELi0E*";
  const std::string apart = "Li2ELi1ELi1E*";
  using Number = Tensors<1>;
  using NumberApart = Tensors<2>;
  kernel<Number, char, char, float>(named("21BinaryOpScalarFunctor", in_place, op).c_str(),
                                    with_number<1, 0, Op>);
  kernel<NumberApart, char, char, float>(named("21BinaryOpScalarFunctor", apart, op).c_str(),
                                         with_number<2, 1, Op>);
  kernel<TensorsWithNumbers<1>, char, char>(
      named("25BinaryOpScalarListFunctor", in_place, op).c_str(), with_numbers<1, 0, Op>);
  kernel<TensorsWithNumbers<2>, char, char>(named("25BinaryOpScalarListFunctor", apart, op).c_str(),
                                            with_numbers<2, 1, Op>);
  kernel<Number, char, char, const float*, float>(
      named("27BinaryOpScalarTensorFunctor", in_place, op).c_str(),
      with_number_on_device<1, 0, Op>);
  kernel<Tensors<2>, char, char, float>(
      named("24BinaryOpListAlphaFunctor", "Li2ELi2ELi0E*", op).c_str(), with_list<2, 0, Op>);
  kernel<Tensors<3>, char, char, float>(
      named("24BinaryOpListAlphaFunctor", "Li3ELi2ELi2E*", op).c_str(), with_list<3, 2, Op>);
  kernel<Tensors<3>, char, char, float>(
      named("24PointwiseOpScalarFunctor", "Li3ELi3ELi0E*", op).c_str(), pointwise<3, 0, Op>);
  kernel<TensorsWithNumbers<3>, char, char>(
      named("28PointwiseOpScalarListFunctor", "Li3ELi3ELi0E*", op).c_str(),
      pointwise_numbers<3, 0, Op>);
}

struct Registration {
  Registration() {
    arithmetic<plus>("St4plusIfE");
    arithmetic<minus>("St5minusIfE");
    arithmetic<times>("St10multipliesIfE");
    arithmetic<over>("St7dividesIfE");
    kernel<Tensors<1>, char, char>(named("14UnaryOpFunctor", "Li1ELi1ELi0E*", "4SqrtIf").c_str(),
                                   unary<1, 0, root>);
    kernel<Tensors<2>, char, char>(named("14UnaryOpFunctor", "Li2ELi1ELi1E*", "4SqrtIf").c_str(),
                                   unary<2, 1, root>);
    kernel<Tensors<2>, char, char>(named("14UnaryOpFunctor", "Li2ELi1ELi1E*", "4CopyIff").c_str(),
                                   unary<2, 1, same>);
    kernel<Tensors<2>, char, char, float>(
        named("22TernaryOpScalarFunctor", "Li2ELi2ELi0E*", "11LerpFunctorIf").c_str(), lerp<2, 0>);
    kernel<Tensors<1>, char, Unscale>(
        "*multi_tensor_apply_kernel*_amp_foreach_non_finite_check_and_unscale*", unscale);
    kernel<float*, int*, const float*, double, double, int>("*amp_update_scale_cuda_kernel*",
                                                            update_scale);
  }
} const g_registration;

}  // namespace
}  // namespace simgpu::torch
