// reduce_kernel of PyTorch 2.6 (Reduce.cuh): one value from many, for every element of the output.
#include <simgpu.h>

#include <cmath>
#include <type_traits>

#include "torch/offsets.h"
#include "torch/scalar.h"

namespace simgpu::torch {
namespace {

struct Config {
  int element_bytes, inputs, outputs, of_launch[11];
  bool vectorize_input;
  int output_vec_size;
};
static_assert(sizeof(Config) == 64);

template <class Operation, class Sums = float>
struct Reduction {
  Operation operation;
  Sums identity;
  Config config;
  Offsets<1> input;
  Offsets<2> output;  // of the output, and of the first input for it
  const char* from;
  char* to[2];
  void *accumulated, *between_blocks, *semaphores;
  int64_t first_index;
  bool accumulate, final_output;
  int outputs;
};

struct Sum {
  char function;
  template <class Number>
  static Number add(Number sum, Number value) {
    return sum + value;
  }
  template <class Number>
  Number finish(Number sum) const {
    return sum;
  }
};
struct Mean {
  float factor;
  static double add(double sum, double value) { return sum + value; }
  double finish(double sum) const { return sum * factor; }
};
struct Norm {
  char function;
  static double add(double sum, double value) { return sum + value * value; }
  double finish(double sum) const { return std::sqrt(sum); }
};

// In double precision where PyTorch adds in single: its order of additions is another.
template <class In, class Out, class Operation, class Sums>
void reduce(Grid, Reduction<Operation, Sums> r) {
  using Number = std::conditional_t<std::is_floating_point_v<Sums>, double, Sums>;
  for (int i = 0; i < r.config.outputs; ++i) {
    const auto base = r.output.at(i);
    auto* out = reinterpret_cast<Out*>(r.to[0] + base[0]);
    Number sum = r.identity;
    for (int k = 0; k < r.config.inputs; ++k) {
      const char* at = r.from + base[1] + r.input.at(k)[0];
      sum = Operation::add(sum, convert<Number>(load<In>(at)));
    }
    if (r.accumulate) {
      sum += convert<Number>(*out);
    }
    *out = convert<Out>(r.final_output ? r.operation.finish(sum) : sum);
  }
}

struct Registration {
  Registration() {
    kernel<Reduction<Sum>>("*13reduce_kernel*8ReduceOpIf*sum_functorIfff*", reduce<float, float>);
    kernel<Reduction<Sum, int64_t>>("*13reduce_kernel*8ReduceOpIl*sum_functorIlll*",
                                    reduce<int64_t, int64_t>);
    kernel<Reduction<Sum>>("*13reduce_kernel*8ReduceOpIN3c104HalfE*sum_functor*",
                           reduce<Half, Half>);
    kernel<Reduction<Sum>>("*13reduce_kernel*8ReduceOpIN3c108BFloat16E*sum_functor*",
                           reduce<BFloat16, BFloat16>);
    // A sum that is cast as it is made: the type of the output stands behind that of the index.
    kernel<Reduction<Sum>>("*13reduce_kernel*8ReduceOpIN3c104HalfE*sum_functor*EEjfLi4E*",
                           reduce<Half, float>);
    kernel<Reduction<Sum>>("*13reduce_kernel*8ReduceOpIN3c108BFloat16E*sum_functor*EEjfLi4E*",
                           reduce<BFloat16, float>);
    kernel<Reduction<Mean>>("*13reduce_kernel*8ReduceOpIf*7MeanOpsIffffE*", reduce<float, float>);
    kernel<Reduction<Norm>>("*13reduce_kernel*8ReduceOpIf*10NormTwoOpsIfffE*",
                            reduce<float, float>);
  }
} const g_registration;

}  // namespace
}  // namespace simgpu::torch
