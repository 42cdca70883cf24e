#include <cstdlib>
#include <cstring>

#include "cuda/copy.h"
#include "cuda/copy_plan.h"
#include "cuda/pool.h"

namespace simgpu {
namespace {

// Bytes per second; 0: a transfer takes the time that it really takes.
double transfer_rate() {
  static const double rate = [] {
    const char* text = getenv("SIMGPU_COPY_GBPS");
    return text ? strtod(text, nullptr) * 1e9 : 0.0;
  }();
  return rate;
}

// A side for as long as its bytes are used.
class Held {
 public:
  // False if the memory is gone.
  bool take(const CopySide& side, bool write) {
    pitch_ = side.pitch;
    slice_ = side.slice;
    if (side.is_array) {
      array_ = side.array.lock();
      start_ = array_ ? array_->data() + side.address : nullptr;
      return array_ != nullptr;
    }
    start_ = side.staged ? const_cast<std::byte*>(side.staged->data())
                         : reinterpret_cast<std::byte*>(side.address);
    return side.place == Place::kPageable || hold(side.address, side.span, write, pin_);
  }
  std::byte* row(size_t y, size_t z) const { return start_ + y * pitch_ + z * slice_; }
  size_t pitch() const { return pitch_; }
  size_t slice() const { return slice_; }

 private:
  std::byte* start_ = nullptr;
  size_t pitch_ = 0;
  size_t slice_ = 0;
  Pin pin_;
  std::shared_ptr<Array> array_;
};

// memmove: overlapping copies are undefined, but must not be worse than that.
void move_rows(const Held& from, const Held& to, const CUDA_MEMCPY3D& shape) {
  size_t width = shape.WidthInBytes;
  size_t height = shape.Height;
  size_t depth = shape.Depth;
  if (height > 1 && from.pitch() == width && to.pitch() == width) {
    width *= height;
    height = 1;
  }
  if (depth > 1 && height == 1 && from.slice() == width && to.slice() == width) {
    width *= depth;
    depth = 1;
  }
  for (size_t z = 0; z < depth; ++z) {
    for (size_t y = 0; y < height; ++y) {
      memmove(to.row(y, z), from.row(y, z), width);
    }
  }
}

class CopyWork : public Work {
 public:
  explicit CopyWork(CopyPlan plan) : plan_(std::move(plan)) {}

  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEMCPY; }
  const CUDA_MEMCPY3D& parameters() const { return plan_.parameters; }

  CUresult run(Run& run) const override {
    if (plan_.bytes() == 0) {
      return CUDA_SUCCESS;
    }
    Held source, destination;
    if (!source.take(plan_.source, false) || !destination.take(plan_.destination, true)) {
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    move_rows(source, destination, plan_.parameters);
    finish_transfer(run, plan_.bytes());
    return CUDA_SUCCESS;
  }

  void describe(simgpuActivity& activity) const override {
    activity.kind = plan_.bytes() == 0 ? SIMGPU_NO_ACTIVITY : SIMGPU_COPY;
    activity.bytes = plan_.bytes();
    activity.from = kind_of(plan_.source);
    activity.to = kind_of(plan_.destination);
  }

 private:
  // Staged memory was pageable.
  static simgpuMemory kind_of(const CopySide& side) {
    constexpr simgpuMemory kKinds[] = {SIMGPU_PAGEABLE, SIMGPU_PINNED, SIMGPU_MANAGED,
                                       SIMGPU_DEVICE};
    return side.is_array ? SIMGPU_ARRAY : kKinds[static_cast<int>(side.place)];
  }

  const CopyPlan plan_;
};

bool may(const Range& range, bool write) {
  return (write ? range.writable : range.readable).load(std::memory_order_relaxed) != 0;
}

}  // namespace

bool hold(uintptr_t address, size_t bytes, bool write, Pin& pin) {
  // Pool memory may have been freed behind this work in its stream: then the chunk tells.
  if (!address_map().pin(address, bytes, pin) && !pool_chunks().pin(address, bytes, pin = {})) {
    return false;
  }
  if (!may(*pin.first, write)) {
    return false;
  }
  for (const RangePtr& range : pin.more) {
    if (!may(*range, write)) {
      return false;
    }
  }
  return true;
}

void finish_transfer(Run& run, size_t bytes) {
  if (const double rate = transfer_rate(); rate > 0) {
    run.end_ns = run.start_ns + static_cast<int64_t>(static_cast<double>(bytes) / rate * 1e9);
  } else {
    run.ends_now();
  }
}

void stage_source(CopyPlan& plan) {
  const CUDA_MEMCPY3D& shape = plan.parameters;
  auto buffer = std::make_shared<std::vector<std::byte>>(plan.bytes());
  std::byte* to = buffer->data();
  for (size_t z = 0; z < shape.Depth; ++z) {
    for (size_t y = 0; y < shape.Height; ++y, to += shape.WidthInBytes) {
      const uintptr_t from = plan.source.address + y * plan.source.pitch + z * plan.source.slice;
      memcpy(to, reinterpret_cast<const void*>(from), shape.WidthInBytes);
    }
  }
  plan.source.pitch = shape.WidthInBytes;
  plan.source.slice = shape.WidthInBytes * shape.Height;
  plan.source.place = Place::kPageable;
  plan.source.staged = std::move(buffer);
}

std::shared_ptr<const Work> work_of(CopyPlan plan) {
  return std::make_shared<CopyWork>(std::move(plan));
}

CUresult make_copy_work(const CUDA_MEMCPY3D& parameters, std::shared_ptr<const Work>& work) {
  CopyPlan plan;
  SIMGPU_TRY(plan_copy(parameters, plan));
  work = work_of(std::move(plan));
  return CUDA_SUCCESS;
}

bool copy_params_of(const Work& work, CUDA_MEMCPY3D& parameters) {
  const auto* copy = dynamic_cast<const CopyWork*>(&work);
  if (copy) {
    parameters = copy->parameters();
  }
  return copy != nullptr;
}

}  // namespace simgpu
