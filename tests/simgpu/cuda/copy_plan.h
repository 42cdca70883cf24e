// A copy taken apart: where both sides lie, and what that means for when the call may return.
#pragma once
#include <cuda.h>

#include <memory>
#include <vector>

#include "cuda/address_map.h"
#include "cuda/array.h"

namespace simgpu {

enum class Place { kPageable, kPinned, kManaged, kDevice };

// One side: rows of `width` bytes, `pitch` apart, in layers that are `slice` apart.
struct CopySide {
  Place place = Place::kPageable;
  uintptr_t address = 0;  // of the first byte copied; arrays: offset into the array
  size_t pitch = 0;
  size_t slice = 0;
  size_t span = 0;  // from the first byte to behind the last
  bool sync_memops = false;
  bool is_array = false;
  std::weak_ptr<Array> array;
  std::shared_ptr<const std::vector<std::byte>>
      staged;  // a copy of pageable memory, made at the call

  bool host() const { return place == Place::kPageable || place == Place::kPinned; }
};

struct CopyPlan {
  CUDA_MEMCPY3D parameters = {};
  CopySide source;
  CopySide destination;

  size_t bytes() const { return parameters.WidthInBytes * parameters.Height * parameters.Depth; }
};

// Fills in `plan` or says what is wrong with the parameters.  An empty copy is right, whatever it
// points to.
CUresult plan_copy(const CUDA_MEMCPY3D& parameters, CopyPlan& plan);
// Reads the source now, so that the program may change it.
void stage_source(CopyPlan& plan);
std::shared_ptr<const Work> work_of(CopyPlan plan);

// Where `bytes` at `address` lie, and if they are wholly inside what CUDA knows.  Memory that it
// does not know is pageable.
struct Located {
  Place place = Place::kPageable;
  bool inside = false;
  bool sync_memops = false;
  bool accessible = true;
};
Located locate(uintptr_t address, size_t bytes);

// Keeps the bytes until `pin` goes; false if they are not live memory that may be read (or written)
// any more.
bool hold(uintptr_t address, size_t bytes, bool write, Pin& pin);

// When a transfer of `bytes` that began at run.start_ns ends: now, or as SIMGPU_COPY_GBPS says.
void finish_transfer(Run& run, size_t bytes);

}  // namespace simgpu
