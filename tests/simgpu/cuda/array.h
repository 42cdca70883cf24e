// CUDA arrays: opaque to programs, plain rows here.
#pragma once
#include <cuda.h>

#include <atomic>
#include <memory>
#include <vector>

#include "cuda/memory.h"

namespace simgpu {

// An array, or one level of a mipmapped array.
struct Array {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  int device = 0;
  Context* context = nullptr;
  size_t element_bytes = 0;
  size_t row_bytes = 0;
  size_t rows = 1;               // 1 for one-dimensional arrays
  size_t layers = 1;             // depth, or number of layers
  std::shared_ptr<Block> block;  // shared by the levels of a mipmapped array
  size_t block_offset = 0;

  std::byte* data() const { return block->data() + block_offset; }
  size_t layer_bytes() const { return row_bytes * rows; }
  size_t bytes() const { return layer_bytes() * layers; }
};

}  // namespace simgpu

struct CUarray_st {
  std::atomic<bool> alive{false};
  std::shared_ptr<simgpu::Array> array;
  bool level = false;  // belongs to a mipmapped array: not destroyed alone
};

struct CUmipmappedArray_st {
  std::atomic<bool> alive{false};
  simgpu::Context* context = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  std::vector<CUarray> levels;
};

namespace simgpu {

// Null if the handle is not alive.
std::shared_ptr<Array> find_array(CUarray handle);

// Bytes of one channel; 0 for formats that are not supported (block-compressed and multi-planar
// ones).
size_t format_bytes(CUarray_format format);
// An array's geometry without memory, or CUDA_ERROR_INVALID_VALUE.
CUresult describe_array(const CUDA_ARRAY3D_DESCRIPTOR& descriptor, Array& array);
CUarray new_array_handle(std::shared_ptr<Array> array, bool level);
// False if the handle is not alive (any more).
bool retire_array_handle(CUarray handle);
// Frees the arrays of a context that goes away.
void release_arrays(Context& context);

}  // namespace simgpu
