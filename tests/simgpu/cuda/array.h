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
  uint64_t id = Range::next_id();

  std::byte* data() const { return block->data() + block_offset; }
  size_t layer_bytes() const { return row_bytes * rows; }
};

}  // namespace simgpu

struct CUarray_st {
  std::atomic<bool> alive{false};
  std::shared_ptr<simgpu::Array> array;
  bool level = false;  // belongs to a mipmapped array: not destroyed alone
};

namespace simgpu {

// Null if the handle is not alive.
std::shared_ptr<Array> find_array(CUarray handle);
// Frees the arrays of a context that goes away.
void release_arrays(Context& context);

}  // namespace simgpu
