// Concatenation and its opposite in PyTorch 2.6 (Shape.cu, TensorShape.cu).
#include <simgpu.h>

#include <algorithm>
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

// torch.split_with_sizes_copy: one split of every row, each into a tensor of its own.
void split(Grid grid, char** to, char** from, int64_t* bytes, int64_t* split_of_block, int64_t*,
           int64_t row_bytes, int64_t rows) {
  for (int64_t block = 0, last = -1; block < grid.grid[0]; ++block) {
    const int64_t split = split_of_block[block];
    for (int64_t row = 0; split != last && row < rows; ++row) {
      memcpy(to[split] + row * bytes[split], from[split] + row * row_bytes, bytes[split]);
    }
    last = split;
  }
}

// torch._chunk_cat without a cast: chunk after chunk, in each a padded piece of every tensor.
void chunk_cat(Grid grid, char** from, char* to, int64_t* tensor_of_block, int64_t* start, int64_t*,
               int64_t* tensor_bytes, int64_t* piece_bytes, int64_t*, int64_t slice_bytes,
               int64_t chunk_bytes, int64_t) {
  for (int64_t block = 0, last = -1; block < grid.grid[0]; ++block) {
    const int64_t tensor = tensor_of_block[block];
    for (int64_t part = 0; tensor != last && part < int64_t{grid.grid[1]} * grid.grid[2]; ++part) {
      const int64_t slice = part / grid.grid[1];
      const int64_t begin = part % grid.grid[1] * piece_bytes[tensor];
      char* piece = to + slice * slice_bytes + part % grid.grid[1] * chunk_bytes + start[tensor];
      const int64_t there =
          std::clamp(tensor_bytes[tensor] - begin, int64_t{0}, piece_bytes[tensor]);
      memcpy(piece, from[tensor] + slice * tensor_bytes[tensor] + begin, there);
      memset(piece + there, 0, piece_bytes[tensor] - there);
    }
    last = tensor;
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
    kernel("*split_with_sizes_copy_out_contiguous_no_cast_kernel*", split);
    kernel("*21chunk_cat_cuda_kernelIccE*", chunk_cat);
  }
} const g_registration;

}  // namespace
}  // namespace simgpu::torch
