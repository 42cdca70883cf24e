// Copies to, from and between arrays.
#include <algorithm>
#include <limits>

#include "cudart/api.h"
#include "cudart/convert.h"
#include "cudart/copy_shape.h"

namespace simgpu::cudart {
namespace {

// A place in an array or in linear memory from which bytes are taken in order, row by row.
class Cursor {
 public:
  static Status of(cudaArray_const_t array, size_t x_bytes, size_t y, Cursor& cursor) {
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
    size_t bytes = 0;
    SIMGPU_TRY(g_driver.cuArray3DGetDescriptor(&descriptor, driver_array(array)));
    SIMGPU_TRY(element_bytes(array, bytes));
    cursor.array_ = const_cast<cudaArray_t>(array);
    cursor.row_bytes_ = descriptor.Width * bytes;
    cursor.x_ = x_bytes;
    cursor.y_ = y;
    return x_bytes < cursor.row_bytes_ ? cudaSuccess : cudaErrorInvalidValue;
  }
  static Cursor of(const void* memory) {
    Cursor cursor;
    cursor.memory_ = static_cast<char*>(const_cast<void*>(memory));
    return cursor;
  }

  size_t left_in_row() const { return row_bytes_ - x_; }
  void advance(size_t bytes) {
    x_ += bytes;
    if (array_ && x_ == row_bytes_) {
      x_ = 0;
      ++y_;
    }
  }
  void as_source(Shape2D& shape, size_t bytes) const {
    array_ ? shape.from(array_, x_, y_) : shape.from(memory_ + x_, bytes);
  }
  void as_target(Shape2D& shape, size_t bytes) const {
    array_ ? shape.to(array_, x_, y_) : shape.to(memory_ + x_, bytes);
  }

 private:
  cudaArray_t array_ = nullptr;
  char* memory_ = nullptr;
  size_t row_bytes_ = std::numeric_limits<size_t>::max();
  size_t x_ = 0;
  size_t y_ = 0;
};

// Copies `bytes` in pieces that lie within one row at both ends; run(CUDA_MEMCPY2D&) does one.
template <class Run>
Status copy_rows(Cursor target, Cursor source, size_t bytes, cudaMemcpyKind kind, Run run) {
  while (bytes > 0) {
    const size_t piece = std::min({bytes, target.left_in_row(), source.left_in_row()});
    Shape2D shape(piece, 1, kind);
    source.as_source(shape, piece);
    target.as_target(shape, piece);
    CUDA_MEMCPY2D copy;
    SIMGPU_TRY(shape.describe(copy));
    SIMGPU_TRY(run(copy));
    source.advance(piece);
    target.advance(piece);
    bytes -= piece;
  }
  return cudaSuccess;
}

}  // namespace

SIMGPU_RT_STREAM(context, cudaMemcpy2DToArray, _ptds,
                 (cudaArray_t target, size_t x_bytes, size_t y, const void* source, size_t pitch,
                  size_t width, size_t height, cudaMemcpyKind kind),
                 (target, x_bytes, y, source, pitch, width, height, kind)) {
  CUDA_MEMCPY2D copy;
  SIMGPU_TRY(
      Shape2D(width, height, kind).from(source, pitch).to(target, x_bytes, y).describe(copy));
  return is_empty(copy) ? Status(cudaSuccess) : calls.cuMemcpy2DUnaligned(&copy);
}

SIMGPU_RT_STREAM(context, cudaMemcpy2DToArrayAsync, _ptsz,
                 (cudaArray_t target, size_t x_bytes, size_t y, const void* source, size_t pitch,
                  size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                 (target, x_bytes, y, source, pitch, width, height, kind, stream)) {
  CUDA_MEMCPY2D copy;
  SIMGPU_TRY(
      Shape2D(width, height, kind).from(source, pitch).to(target, x_bytes, y).describe(copy));
  return is_empty(copy) ? Status(cudaSuccess) : calls.cuMemcpy2DAsync(&copy, stream);
}

SIMGPU_RT_STREAM(context, cudaMemcpy2DFromArray, _ptds,
                 (void* target, size_t pitch, cudaArray_const_t source, size_t x_bytes, size_t y,
                  size_t width, size_t height, cudaMemcpyKind kind),
                 (target, pitch, source, x_bytes, y, width, height, kind)) {
  CUDA_MEMCPY2D copy;
  SIMGPU_TRY(
      Shape2D(width, height, kind).from(source, x_bytes, y).to(target, pitch).describe(copy));
  return is_empty(copy) ? Status(cudaSuccess) : calls.cuMemcpy2DUnaligned(&copy);
}

SIMGPU_RT_STREAM(context, cudaMemcpy2DFromArrayAsync, _ptsz,
                 (void* target, size_t pitch, cudaArray_const_t source, size_t x_bytes, size_t y,
                  size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                 (target, pitch, source, x_bytes, y, width, height, kind, stream)) {
  CUDA_MEMCPY2D copy;
  SIMGPU_TRY(
      Shape2D(width, height, kind).from(source, x_bytes, y).to(target, pitch).describe(copy));
  return is_empty(copy) ? Status(cudaSuccess) : calls.cuMemcpy2DAsync(&copy, stream);
}

SIMGPU_RT_STREAM(context, cudaMemcpy2DArrayToArray, _ptds,
                 (cudaArray_t target, size_t target_x, size_t target_y, cudaArray_const_t source,
                  size_t source_x, size_t source_y, size_t width, size_t height,
                  cudaMemcpyKind kind),
                 (target, target_x, target_y, source, source_x, source_y, width, height, kind)) {
  CUDA_MEMCPY2D copy;
  SIMGPU_TRY(Shape2D(width, height, kind)
                 .from(source, source_x, source_y)
                 .to(target, target_x, target_y)
                 .describe(copy));
  return is_empty(copy) ? Status(cudaSuccess) : calls.cuMemcpy2DUnaligned(&copy);
}

SIMGPU_RT_STREAM(context, cudaMemcpyToArray, _ptds,
                 (cudaArray_t target, size_t x_bytes, size_t y, const void* source, size_t bytes,
                  cudaMemcpyKind kind),
                 (target, x_bytes, y, source, bytes, kind)) {
  Cursor to;
  SIMGPU_TRY(Cursor::of(target, x_bytes, y, to));
  return copy_rows(to, Cursor::of(source), bytes, kind,
                   [&](CUDA_MEMCPY2D& copy) { return calls.cuMemcpy2DUnaligned(&copy); });
}

SIMGPU_RT_STREAM(context, cudaMemcpyToArrayAsync, _ptsz,
                 (cudaArray_t target, size_t x_bytes, size_t y, const void* source, size_t bytes,
                  cudaMemcpyKind kind, cudaStream_t stream),
                 (target, x_bytes, y, source, bytes, kind, stream)) {
  Cursor to;
  SIMGPU_TRY(Cursor::of(target, x_bytes, y, to));
  return copy_rows(to, Cursor::of(source), bytes, kind,
                   [&](CUDA_MEMCPY2D& copy) { return calls.cuMemcpy2DAsync(&copy, stream); });
}

SIMGPU_RT_STREAM(context, cudaMemcpyFromArray, _ptds,
                 (void* target, cudaArray_const_t source, size_t x_bytes, size_t y, size_t bytes,
                  cudaMemcpyKind kind),
                 (target, source, x_bytes, y, bytes, kind)) {
  Cursor from;
  SIMGPU_TRY(Cursor::of(source, x_bytes, y, from));
  return copy_rows(Cursor::of(target), from, bytes, kind,
                   [&](CUDA_MEMCPY2D& copy) { return calls.cuMemcpy2DUnaligned(&copy); });
}

SIMGPU_RT_STREAM(context, cudaMemcpyFromArrayAsync, _ptsz,
                 (void* target, cudaArray_const_t source, size_t x_bytes, size_t y, size_t bytes,
                  cudaMemcpyKind kind, cudaStream_t stream),
                 (target, source, x_bytes, y, bytes, kind, stream)) {
  Cursor from;
  SIMGPU_TRY(Cursor::of(source, x_bytes, y, from));
  return copy_rows(Cursor::of(target), from, bytes, kind,
                   [&](CUDA_MEMCPY2D& copy) { return calls.cuMemcpy2DAsync(&copy, stream); });
}

SIMGPU_RT_STREAM(context, cudaMemcpyArrayToArray, _ptds,
                 (cudaArray_t target, size_t target_x, size_t target_y, cudaArray_const_t source,
                  size_t source_x, size_t source_y, size_t bytes, cudaMemcpyKind kind),
                 (target, target_x, target_y, source, source_x, source_y, bytes, kind)) {
  Cursor to;
  Cursor from;
  SIMGPU_TRY(Cursor::of(target, target_x, target_y, to));
  SIMGPU_TRY(Cursor::of(source, source_x, source_y, from));
  return copy_rows(to, from, bytes, kind,
                   [&](CUDA_MEMCPY2D& copy) { return calls.cuMemcpy2DUnaligned(&copy); });
}

}  // namespace simgpu::cudart
