// Concatenation in PyTorch 2.6 (Shape.cu).
#include <simgpu.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace simgpu::torch {
namespace {

struct Shape {
  uint32_t size[4];
  uint32_t stride[4];
};
template <int Inputs>
struct ListedInputs {
  const char* data[Inputs];
  uint32_t offset[Inputs];
  uint32_t size[Inputs];
  uint32_t elements[Inputs];
  bool contiguous[Inputs];
  Shape shape[1];
};
using CatInputs = ListedInputs<128>;

template <int Dims, size_t Bytes>
void concatenate(Grid grid, char* output, CatInputs inputs, Shape shape, int dim, uint32_t stride) {
  for (unsigned input = 0; input < grid.grid[1]; ++input) {
    const uint64_t base = uint64_t{inputs.offset[input]} * stride;
    for (uint32_t i = 0; i < inputs.elements[input]; ++i) {
      uint32_t rest = i;
      uint64_t at = base;
      for (int d = Dims - 1; d > 0; --d) {
        const uint32_t size = d == dim ? inputs.size[input] : shape.size[d];
        at += uint64_t{rest % size} * shape.stride[d];
        rest /= size;
      }
      at += uint64_t{rest} * shape.stride[0];
      memcpy(output + at * Bytes, inputs.data[input] + size_t{i} * Bytes, Bytes);
    }
  }
}

template <int Dims, size_t Bytes>
void add() {
  const std::string name = "*CatArrayBatchedCopy*10OpaqueTypeILj" + std::to_string(Bytes) +
                           "EEEjLi" + std::to_string(Dims) + "ELi128ELi1EE*";
  kernel<char*, CatInputs, Shape, int, uint32_t>(name.c_str(), concatenate<Dims, Bytes>);
}
template <size_t Bytes>
void add_dims() {
  add<1, Bytes>();
  add<2, Bytes>();
  add<3, Bytes>();
}

struct Registration {
  Registration() {
    add_dims<1>();
    add_dims<2>();
    add_dims<4>();
    add_dims<8>();
  }
} const g_registration;

}  // namespace
}  // namespace simgpu::torch
