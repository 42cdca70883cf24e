// The element-wise functions of PyTorch that small models and its own host logic need.
#include <cmath>

#include "torch/elementwise.h"

namespace simgpu::torch {
namespace {

template <class T>
struct Fill {
  T value;
  T operator()() const { return value; }
};

template <class T>
struct Multiply {
  T operator()(T a, T b) const { return convert<T>(Wide<T>(a) * Wide<T>(b)); }
};
// AUnaryFunctor and BUnaryFunctor: one operand of a commutative function is a number.
template <class T>
struct MultiplyBy {
  char function;
  Wide<T> number;
  T operator()(T a) const { return convert<T>(Wide<T>(a) * number); }
};

template <class T>
struct Add {
  Wide<T> alpha;
  T operator()(T a, T b) const { return convert<T>(Wide<T>(a) + alpha * Wide<T>(b)); }
};
template <class T>
struct AddNumber {
  Wide<T> number, alpha;
  T operator()(T a) const { return convert<T>(Wide<T>(a) + alpha * number); }
};

template <class From, class To>
struct Copy {
  To operator()(From a) const { return convert<To>(a); }
};

template <class T>
struct Clamp {
  int kind;  // ClampLimits: minimum, maximum, both
  Wide<T> low, high;
  T operator()(T value) const {
    Wide<T> a = Wide<T>(value);
    if (a != a) {
      return value;
    }
    if (kind == 1) {
      return convert<T>(std::min(a, low));
    }
    a = std::max(a, low);
    return convert<T>(kind == 2 ? std::min(a, high) : a);
  }
};

template <class T>
struct Threshold {
  T threshold, value;
  T operator()(T x, T other) const { return Wide<T>(x) <= Wide<T>(threshold) ? value : other; }
};

template <class T>
struct SquaredError {
  T operator()(T a, T b) const {
    const T difference = a - b;
    return difference * difference;
  }
};
template <class T>
struct SquaredErrorBackward {
  T alpha;
  T operator()(T a, T b, T c) const { return alpha * (a - b) * c; }
};

template <class T>
struct Compare {
  int kind;  // >= > <= <
  bool operator()(T a, T b) const {
    return kind == 0 ? a >= b : kind == 1 ? a > b : kind == 2 ? a <= b : a < b;
  }
};
template <class T>
struct CompareNumber {
  int kind;
  T number;
  bool operator()(T a) const { return Compare<T>{kind}(a, number); }
};
template <class T>
struct Equal {
  int kind;  // ==, !=
  bool operator()(T a, T b) const { return (a == b) == (kind == 0); }
};
template <class T>
struct EqualNumber {
  Equal<T> equal;
  T number;
  bool operator()(T a) const { return equal(a, number); }
};

struct And {
  bool operator()(bool a, bool b) const { return a && b; }
};

template <class T>
struct Absolute {
  T operator()(T a) const { return std::abs(a); }
};
template <class T>
struct Reciprocal {
  T operator()(T a) const { return T(1) / a; }
};
template <class T>
struct Sigmoid {
  T operator()(T a) const { return T(1) / (T(1) + std::exp(-a)); }
};

// `type` is how the type is mangled where it is named first, `last` as a lambda's last parameter.
template <class T>
void floating(const std::string& type, const std::string& last) {
  elementwise<Fill<T>>("*11FillFunctorI" + type + "EE");
  elementwise<Multiply<T>>("*13BinaryFunctorI" + type + "*10MulFunctorI*EEE");
  elementwise<MultiplyBy<T>>("*13AUnaryFunctorI" + type + "*10MulFunctorI*EEE");
  elementwise<MultiplyBy<T>>("*13BUnaryFunctorI" + type + "*10MulFunctorI*EEE");
  elementwise<Add<T>>("*15CUDAFunctor_addI" + type + "EE");
  elementwise<AddNumber<T>>("*21CUDAFunctorOnSelf_addI" + type + "EE");
  elementwise<AddNumber<T>>("*22CUDAFunctorOnOther_addI" + type + "EE");
  elementwise<Clamp<T>>("*launch_clamp_scalar*EUl" + last + "E_");
  elementwise<Threshold<T>>("*13BinaryFunctorI" + type + "*threshold_kernel_impl*");
  elementwise<Copy<T, T>>("*direct_copy_kernel_cuda*EUl" + last + "E_");
}

struct Registration {
  Registration() {
    floating<float>("f", "f");
    floating<Half>("N3c104HalfE", "*4HalfE");
    floating<BFloat16>("N3c108BFloat16E", "*8BFloat16E");
    elementwise<Fill<double>>("*11FillFunctorIdEE");
    elementwise<Fill<int32_t>>("*11FillFunctorIiEE");
    elementwise<Fill<int64_t>>("*11FillFunctorIlEE");
    elementwise<Fill<bool>>("*11FillFunctorIbEE");
    elementwise<Add<int64_t>>("*15CUDAFunctor_addIlEE");
    elementwise<AddNumber<int64_t>>("*21CUDAFunctorOnSelf_addIlEE");
    elementwise<Copy<double, double>>("*direct_copy_kernel_cuda*EUldE_");
    elementwise<Copy<int32_t, int32_t>>("*direct_copy_kernel_cuda*EUliE_");
    elementwise<Copy<int64_t, int64_t>>("*direct_copy_kernel_cuda*EUllE_");
    elementwise<Copy<bool, bool>>("*direct_copy_kernel_cuda*EUlbE_");
    elementwise<Copy<float, Half>>("*24float16_copy_kernel_cuda*");
    elementwise<Copy<float, BFloat16>>("*25bfloat16_copy_kernel_cuda*");
    elementwise<SquaredError<float>>("*mse_kernel_cuda*EUlffE_");
    elementwise<SquaredErrorBackward<float>>("*mse_backward_cuda_kernel*EUlfffE_");
    elementwise<Compare<int64_t>>("*14CompareFunctorIlEE");
    elementwise<Compare<float>>("*14CompareFunctorIfEE");
    elementwise<CompareNumber<float>>("*compare_scalar_kernelIf*EUlfE_");
    elementwise<Equal<float>>("*13BinaryFunctorIffb*16CompareEqFunctorIfEEEE");
    elementwise<EqualNumber<float>>("*13AUnaryFunctorIffb*16CompareEqFunctorIfEEEE");
    elementwise<And>("*13BinaryFunctorIbbb*17BitwiseAndFunctorIbEEEE");
    elementwise<And>("*13BinaryFunctorIbbb*10MulFunctorIbEEEE");
    elementwise<Absolute<float>>("*10AbsFunctorIfEE");
    elementwise<Reciprocal<float>>("*reciprocal_kernel_cuda*EUlfE_");
    elementwise<Reciprocal<double>>("*reciprocal_kernel_cuda*EUldE_");
    elementwise<Sigmoid<float>>("*sigmoid_kernel_cuda*EUlfE_");
  }
} const g_registration;

}  // namespace
}  // namespace simgpu::torch
