#include "cuda/host_memory.h"

#include <sys/mman.h>

#include "cuda/managed.h"
#include "cuda/memory.h"

namespace simgpu {
namespace {

// Anonymous pages, returned with the last owner.
class HostBlock {
 public:
  static std::shared_ptr<HostBlock> map(size_t bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return data == MAP_FAILED ? nullptr : std::make_shared<HostBlock>(data, bytes);
  }
  HostBlock(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;
  ~HostBlock() { munmap(data_, bytes_); }

  void* data() const { return data_; }

 private:
  void* data_;
  size_t bytes_;
};

// msync of pages that nobody wrote does nothing, but fails if a page is not mapped.
bool mapped(uintptr_t address, size_t bytes) {
  const uintptr_t first = address / kPageBytes * kPageBytes;
  return msync(reinterpret_cast<void*>(first), address + bytes - first, MS_ASYNC) == 0;
}

}  // namespace

CUresult allocate_host(Context& context, RangeKind kind, size_t bytes, unsigned flags,
                       RangePtr& out) {
  if (bytes > SIZE_MAX / 2) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::shared_ptr<HostBlock> block = HostBlock::map(round_up(bytes, kPageBytes));
  if (!block) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  forget_advice(reinterpret_cast<uintptr_t>(block->data()), bytes);
  auto range = std::make_shared<Range>();
  range->base = reinterpret_cast<uintptr_t>(block->data());
  range->bytes = bytes;
  range->kind = kind;
  range->device = context.device;
  range->context = &context;
  range->flags = flags;
  range->backing = std::move(block);
  address_map().insert(range);
  out = std::move(range);
  return CUDA_SUCCESS;
}

CUresult register_host(Context& context, void* address, size_t bytes, unsigned flags) {
  auto range = std::make_shared<Range>();
  range->base = reinterpret_cast<uintptr_t>(address);
  range->bytes = bytes;
  if (range->end() < range->base || !mapped(range->base, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  range->kind = RangeKind::kRegistered;
  range->device = context.device;
  range->context = &context;
  range->flags = flags;
  return address_map().insert(std::move(range)) ? CUDA_SUCCESS
                                                : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

}  // namespace simgpu
