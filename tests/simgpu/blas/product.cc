#include "blas/product.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <vector>

namespace simgpu::blas {
namespace {

template <class Function>
void with_type(cudaDataType type, Function&& function) {
  switch (type) {
    case CUDA_R_16F:
      return function(__half{});
    case CUDA_R_16BF:
      return function(__nv_bfloat16{});
    case CUDA_R_64F:
      return function(double{});
    default:
      return function(float{});
  }
}

// Row after row, whatever the operand's own order; `Sum` is what products are added up in.
template <class Sum>
std::vector<Sum> packed(const Matrix& matrix, int64_t rows, int64_t columns, int64_t batch) {
  std::vector<Sum> out(rows * columns);
  with_type(matrix.type, [&](auto type) {
    const auto* from = static_cast<const decltype(type)*>(matrix.data) + batch * matrix.stride;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        const int64_t at =
            matrix.transposed ? row * matrix.leading + column : column * matrix.leading + row;
        out[row * columns + column] = static_cast<Sum>(from[at]);
      }
    }
  });
  return out;
}

double activate(Activation activation, double value) {
  switch (activation) {
    case Activation::kRelu:
      return value > 0 ? value : 0;
    case Activation::kGelu:
      return 0.5 * value *
             (1 + std::tanh(0.7978845608028654 * (value + 0.044715 * value * value * value)));
    default:
      return value;
  }
}

template <class Sum>
void multiply_one(const Product& p, double alpha, double beta, int64_t batch) {
  const std::vector<Sum> a = packed<Sum>(p.a, p.rows, p.inner, batch);
  const std::vector<Sum> b = packed<Sum>(p.b, p.inner, p.columns, batch);
  std::vector<Sum> sums(p.columns);
  for (int64_t row = 0; row < p.rows; ++row) {
    sums.assign(p.columns, Sum{});
    for (int64_t k = 0; k < p.inner; ++k) {
      const Sum left = a[row * p.inner + k];
      for (int64_t column = 0; column < p.columns; ++column) {
        sums[column] += left * b[k * p.columns + column];
      }
    }
    const double bias = p.bias ? load_scalar(static_cast<const char*>(p.bias) +
                                                 row * (p.bias_type == CUDA_R_64F   ? 8
                                                        : p.bias_type == CUDA_R_32F ? 4
                                                                                    : 2),
                                             p.bias_type)
                               : 0;
    with_type(p.result.type, [&](auto type) {
      using Element = decltype(type);
      const auto* source = static_cast<const Element*>(p.source.data) + batch * p.source.stride;
      auto* result =
          static_cast<Element*>(const_cast<void*>(p.result.data)) + batch * p.result.stride;
      for (int64_t column = 0; column < p.columns; ++column) {
        double value = alpha * static_cast<double>(sums[column]) + bias;
        if (beta != 0) {
          value += beta * static_cast<double>(source[column * p.source.leading + row]);
        }
        result[column * p.result.leading + row] = Element(activate(p.activation, value));
      }
    });
  }
}

}  // namespace

bool is_supported(cudaDataType type) {
  return type == CUDA_R_16F || type == CUDA_R_16BF || type == CUDA_R_32F || type == CUDA_R_64F;
}

double load_scalar(const void* at, cudaDataType type) {
  double out = 0;
  with_type(type, [&](auto element) {
    out = static_cast<double>(*static_cast<const decltype(element)*>(at));
  });
  return out;
}

void multiply(const Product& product) {
  const double alpha =
      product.device_alpha ? load_scalar(product.device_alpha, product.scale_type) : product.alpha;
  const double beta =
      product.device_beta ? load_scalar(product.device_beta, product.scale_type) : product.beta;
  for (int64_t batch = 0; batch < product.batch; ++batch) {
    if (product.a.type == CUDA_R_64F) {
      multiply_one<double>(product, alpha, beta, batch);
    } else {
      multiply_one<float>(product, alpha, beta, batch);
    }
  }
}

}  // namespace simgpu::blas
