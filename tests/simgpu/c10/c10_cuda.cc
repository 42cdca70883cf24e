#include "c10_cuda.h"

#include <memory>
#include <mutex>
#include <vector>

#include "device_allocator.h"

namespace c10sim {
namespace {

// Never destroyed: threads may allocate while the process ends.
DeviceAllocator& allocator_of(int device) {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::vector<std::unique_ptr<DeviceAllocator>>;
  const std::lock_guard lock(mutex);
  while (all.size() <= static_cast<size_t>(device)) {
    all.push_back(std::make_unique<DeviceAllocator>(static_cast<int>(all.size())));
  }
  return *all[static_cast<size_t>(device)];
}

int device_count() {
  int count = 0;
  cudaGetDeviceCount(&count);
  return count;
}

int current_device() {
  int device = 0;
  cudaGetDevice(&device);
  return device;
}

}  // namespace
}  // namespace c10sim

void* c10sim_malloc(size_t bytes, cudaStream_t stream) {
  return c10sim::allocator_of(c10sim::current_device()).allocate(bytes, stream);
}

void c10sim_free(void* memory) {
  for (int device = 0; device < c10sim::device_count(); ++device) {
    if (c10sim::allocator_of(device).free(memory)) {
      return;
    }
  }
}

void c10sim_record_stream(void* memory, cudaStream_t stream) {
  for (int device = 0; device < c10sim::device_count(); ++device) {
    if (c10sim::allocator_of(device).record_stream(memory, stream)) {
      return;
    }
  }
}

void c10sim_empty_cache() {
  for (int device = 0; device < c10sim::device_count(); ++device) {
    c10sim::allocator_of(device).empty_cache();
  }
}

void c10sim_stats(int device, C10Stats* stats) {
  *stats = c10sim::allocator_of(device).stats();
}

void c10sim_snapshot(int device, void (*visit)(const C10Block*, void*), void* context) {
  for (const C10Block& block : c10sim::allocator_of(device).snapshot()) {
    visit(&block, context);
  }
}
