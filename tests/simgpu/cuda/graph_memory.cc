#include "cuda/graph_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>

#include "cuda/memory.h"

namespace simgpu {
namespace {

struct Usage {
  uint64_t used = 0, used_high = 0;
  uint64_t reserved = 0, reserved_high = 0;
};

class GraphAllocation;

// All graph memory of the process.
struct Registry {
  std::mutex
      mutex;  // guards this and the state of all allocations; no call leaves this file under it
  std::map<CUdeviceptr, std::weak_ptr<GraphAllocation>> by_address;
  std::array<Usage, kMaxDevices> usage;
};
Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

// An address range, unmapped when no copy uses it any more.
class Reservation {
 public:
  explicit Reservation(size_t bytes)
      : bytes_(bytes),
        memory_(
            mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation() {
    if (memory_ != MAP_FAILED) {
      munmap(memory_, bytes_);
    }
  }
  bool valid() const { return memory_ != MAP_FAILED; }
  uintptr_t address() const { return reinterpret_cast<uintptr_t>(memory_); }
  bool map(int file) {
    return mmap(memory_, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
           memory_;
  }
  void unmap() {
    static_cast<void>(mmap(memory_, bytes_, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
  }

 private:
  size_t bytes_;
  void* memory_;
};

class GraphAllocation : public std::enable_shared_from_this<GraphAllocation> {
 public:
  GraphAllocation(int device, size_t bytes)
      : bytes_(bytes),
        reserved_bytes_(round_up(bytes, kGranularityBytes)),
        reservation_(std::make_shared<Reservation>(reserved_bytes_)),
        range_(std::make_shared<Range>()) {
    range_->base = reservation_->address();
    range_->bytes = bytes;
    range_->kind = RangeKind::kGraph;
    range_->device = device;
    range_->backing = reservation_;
    range_->readable = range_->writable = 0;
  }
  ~GraphAllocation() {
    address_map().remove(range_->base, [&](const Range& other) { return other.id == range_->id; });
    const std::lock_guard lock(registry().mutex);
    registry().by_address.erase(address());
    release_physical();
  }

  bool publish() {
    if (!reservation_->valid() || !address_map().insert(range_)) {
      return false;
    }
    const std::lock_guard lock(registry().mutex);
    registry().by_address[address()] = weak_from_this();
    return true;
  }

  CUdeviceptr address() const { return range_->base; }
  int device() const { return range_->device; }
  // A free node exists: the graph itself ends the memory's life, a second launch comes after that.
  void freed_by_node() { has_free_node_ = true; }
  bool has_free_node() const { return has_free_node_; }

  // These need the registry's lock.
  bool live() const { return self_ != nullptr || pending_ > 0; }
  CUresult commit() {
    if (!physical_) {
      std::shared_ptr<Physical> physical = Physical::create(device(), reserved_bytes_);
      if (!physical || !reservation_->map(physical->file())) {
        return CUDA_ERROR_OUT_OF_MEMORY;
      }
      physical_ = std::move(physical);
      Usage& usage = registry().usage[device()];
      usage.reserved += reserved_bytes_;
      usage.reserved_high = std::max(usage.reserved_high, usage.reserved);
    }
    return CUDA_SUCCESS;
  }
  void expect_run() { ++pending_; }
  CUresult begin() {
    pending_ -= pending_ > 0;
    if (const CUresult result = commit()) {
      return result;
    }
    if (!self_) {
      self_ = shared_from_this();
      range_->readable = range_->writable = ~0u;
      Usage& usage = registry().usage[device()];
      usage.used += bytes_;
      usage.used_high = std::max(usage.used_high, usage.used);
    }
    return CUDA_SUCCESS;
  }
  // Returns what kept it alive, to be dropped without the lock; null if it is not allocated.
  std::shared_ptr<GraphAllocation> end() {
    if (self_) {
      range_->readable = range_->writable = 0;
      registry().usage[device()].used -= bytes_;
    }
    return std::move(self_);
  }
  void trim() {
    if (!live() && physical_) {
      reservation_->unmap();
      release_physical();
    }
  }

 private:
  void release_physical() {
    if (physical_) {
      registry().usage[device()].reserved -= reserved_bytes_;
      physical_.reset();
    }
  }

  const size_t bytes_;
  const size_t reserved_bytes_;
  const std::shared_ptr<Reservation> reservation_;
  const RangePtr range_;
  std::atomic<bool> has_free_node_{false};
  std::shared_ptr<Physical> physical_;
  std::shared_ptr<GraphAllocation> self_;  // set while allocated: it may outlive its graph
  unsigned pending_ = 0;  // launches committed whose allocation node did not run yet
};

std::shared_ptr<GraphAllocation> find_allocation(CUdeviceptr address) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().by_address.find(address);
  return found == registry().by_address.end() ? nullptr : found->second.lock();
}

class AllocWork : public Work {
 public:
  AllocWork(const CUDA_MEM_ALLOC_NODE_PARAMS& parameters,
            std::shared_ptr<GraphAllocation> allocation)
      : parameters_(parameters),
        access_(parameters.accessDescs, parameters.accessDescs + parameters.accessDescCount),
        allocation_(std::move(allocation)) {
    parameters_.accessDescs = access_.empty() ? nullptr : access_.data();
  }
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
  const CUDA_MEM_ALLOC_NODE_PARAMS& parameters() const { return parameters_; }
  GraphAllocation& allocation() const { return *allocation_; }
  CUresult run(Run&) const override {
    const std::lock_guard lock(registry().mutex);
    return allocation_->begin();
  }

 private:
  CUDA_MEM_ALLOC_NODE_PARAMS parameters_;
  const std::vector<CUmemAccessDesc> access_;
  const std::shared_ptr<GraphAllocation> allocation_;
};

// Ends the allocation at an address; it does not keep it: the memory may belong to another graph.
class FreeWork : public Work {
 public:
  explicit FreeWork(CUdeviceptr address) : address_(address) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
  CUdeviceptr address() const { return address_; }
  CUresult run(Run&) const override { return free_graph_memory(address_); }

 private:
  const CUdeviceptr address_;
};

bool right(const CUDA_MEM_ALLOC_NODE_PARAMS& p) {
  return p.bytesize > 0 && p.poolProps.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
         p.poolProps.handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
         p.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         valid_device(p.poolProps.location.id) && (p.accessDescs || p.accessDescCount == 0);
}

}  // namespace

CUresult make_alloc_work(CUDA_MEM_ALLOC_NODE_PARAMS& parameters,
                         std::shared_ptr<const Work>& work) {
  if (!right(parameters)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (parameters.bytesize > device_capacity()) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto allocation =
      std::make_shared<GraphAllocation>(parameters.poolProps.location.id, parameters.bytesize);
  if (!allocation->publish()) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  parameters.dptr = allocation->address();
  work = std::make_shared<AllocWork>(parameters, std::move(allocation));
  return CUDA_SUCCESS;
}

CUresult make_free_work(CUdeviceptr address, std::shared_ptr<const Work>& work) {
  const std::shared_ptr<GraphAllocation> allocation = find_allocation(address);
  if (!allocation) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  allocation->freed_by_node();
  work = std::make_shared<FreeWork>(address);
  return CUDA_SUCCESS;
}

std::shared_ptr<const Work> free_graph_memory_work(CUdeviceptr address) {
  return std::make_shared<FreeWork>(address);
}

CUresult free_graph_memory(CUdeviceptr address) {
  const std::shared_ptr<GraphAllocation> allocation = find_allocation(address);
  if (!allocation) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::shared_ptr<GraphAllocation> last;
  const std::lock_guard lock(registry().mutex);
  last = allocation->end();
  return last ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool alloc_params_of(const Work& work, CUDA_MEM_ALLOC_NODE_PARAMS& parameters) {
  const auto* alloc = dynamic_cast<const AllocWork*>(&work);
  if (alloc) {
    parameters = alloc->parameters();
  }
  return alloc != nullptr;
}

bool free_address_of(const Work& work, CUdeviceptr& address) {
  const auto* free = dynamic_cast<const FreeWork*>(&work);
  if (free) {
    address = free->address();
  }
  return free != nullptr;
}

bool graph_memory_live(const Work& alloc_work) {
  GraphAllocation& allocation = static_cast<const AllocWork&>(alloc_work).allocation();
  const std::lock_guard lock(registry().mutex);
  return allocation.live() && !allocation.has_free_node();
}

void graph_memory_free(const Work& alloc_work) {
  free_graph_memory(static_cast<const AllocWork&>(alloc_work).allocation().address());
}

CUresult graph_memory_commit(const Work& alloc_work) {
  GraphAllocation& allocation = static_cast<const AllocWork&>(alloc_work).allocation();
  const std::lock_guard lock(registry().mutex);
  SIMGPU_TRY(allocation.commit());
  allocation.expect_run();
  return CUDA_SUCCESS;
}

CUresult graph_memory_attribute(int device, CUgraphMem_attribute attribute, cuuint64_t& value) {
  const std::lock_guard lock(registry().mutex);
  const Usage& usage = registry().usage[device];
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      value = usage.used;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      value = usage.used_high;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      value = usage.reserved;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      value = usage.reserved_high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult graph_memory_reset_high(int device, CUgraphMem_attribute attribute) {
  const std::lock_guard lock(registry().mutex);
  Usage& usage = registry().usage[device];
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      usage.used_high = usage.used;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      usage.reserved_high = usage.reserved;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

void graph_memory_trim(int device) {
  std::vector<std::shared_ptr<GraphAllocation>> all;  // dropped after the lock
  const std::lock_guard lock(registry().mutex);
  for (const auto& [address, weak] : registry().by_address) {
    std::shared_ptr<GraphAllocation> allocation = weak.lock();
    if (allocation && allocation->device() == device) {
      allocation->trim();
      all.push_back(std::move(allocation));
    }
  }
}

}  // namespace simgpu
