// Which pools exist, and which a device uses.
#include <array>

#include "cuda/pool.h"

namespace simgpu {
namespace {

struct PoolRegistry {
  std::mutex mutex;  // guards what follows; taken before no pool's own lock
  std::vector<std::weak_ptr<Pool>> all;
  std::array<CUmemoryPool, kMaxDevices> defaults = {};
  std::array<CUmemoryPool, kMaxDevices> current = {};
  std::atomic<bool> used{false};
};
PoolRegistry& registry() {
  static PoolRegistry& value = *new PoolRegistry;
  return value;
}

Slots<CUmemPoolHandle_st>& slots() {
  static auto& value = *new Slots<CUmemPoolHandle_st>;
  return value;
}

std::vector<std::shared_ptr<Pool>> pools_of(int device) {
  std::vector<std::shared_ptr<Pool>> found;
  if (!registry().used.load(std::memory_order_acquire)) {
    return found;
  }
  const std::lock_guard lock(registry().mutex);
  std::erase_if(registry().all, [](const auto& pool) { return pool.expired(); });
  for (const std::weak_ptr<Pool>& weak : registry().all) {
    if (std::shared_ptr<Pool> pool = weak.lock(); pool && pool->device() == device) {
      found.push_back(std::move(pool));
    }
  }
  return found;
}

}  // namespace

CUmemoryPool new_pool_handle(std::shared_ptr<Pool> pool) {
  CUmemoryPool handle = slots().take();
  handle->is_default = false;
  handle->file = -1;
  {
    const std::lock_guard lock(registry().mutex);
    registry().all.push_back(pool);
    registry().used.store(true, std::memory_order_release);
  }
  handle->pool = std::move(pool);
  handle->alive.store(true, std::memory_order_release);
  return handle;
}

void retire_pool_handle(CUmemoryPool handle) {
  {
    const std::lock_guard lock(registry().mutex);
    for (CUmemoryPool& current : registry().current) {
      current = current == handle ? nullptr : current;
    }
  }
  handle->pool.reset();
  slots().give(handle);
}

std::shared_ptr<Pool> find_pool(CUmemoryPool handle) {
  return handle && handle->alive.load(std::memory_order_acquire) ? handle->pool : nullptr;
}

CUmemoryPool default_pool(int device) {
  static auto& once = *new std::array<std::once_flag, kMaxDevices>;
  std::call_once(once[device], [device] {
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CUmemoryPool handle = new_pool_handle(std::make_shared<Pool>(properties, device));
    handle->is_default = true;
    const std::lock_guard lock(registry().mutex);
    registry().defaults[device] = handle;
  });
  const std::lock_guard lock(registry().mutex);
  return registry().defaults[device];
}

CUmemoryPool current_pool(int device) {
  {
    const std::lock_guard lock(registry().mutex);
    if (CUmemoryPool current = registry().current[device]) {
      return current;
    }
  }
  return default_pool(device);
}

void set_current_pool(int device, CUmemoryPool pool) {
  const std::lock_guard lock(registry().mutex);
  registry().current[device] = pool;
}

void release_unused(int device) {
  for (const std::shared_ptr<Pool>& pool : pools_of(device)) {
    pool->trim(0);
  }
}

void trim_pools(int device) {
  for (const std::shared_ptr<Pool>& pool : pools_of(device)) {
    pool->trim_to_threshold();
  }
}

void forget_imported(const Range& range) {
  pool_chunks().remove(range.base, [&](const Range& other) { return other.id == range.id; });
}

void release_pool_memory(Context& context) {
  pool_chunks().remove_if([&](const Range& range) { return range.context == &context; });
  for (int device = 0; device < device_count(); ++device) {
    for (const std::shared_ptr<Pool>& pool : pools_of(device)) {
      for (const uintptr_t address : pool->addresses_of(context)) {
        address_map().remove(address, [](const Range& r) { return r.kind == RangeKind::kPool; });
        pool->give_now(address);
      }
      if (device == context.device) {
        pool->trim(0);
      }
    }
  }
}

}  // namespace simgpu
