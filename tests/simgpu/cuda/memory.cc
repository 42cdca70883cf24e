#include "cuda/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda/array.h"
#include "cuda/ipc.h"
#include "cuda/node_account.h"
#include "cuda/pool.h"

namespace simgpu {
namespace {

constexpr size_t kDefaultBytes = size_t{16} << 30;

// "24G" -> bytes; 0 if it is none.
size_t parse_bytes(const char* text) {
  char* end = nullptr;
  const double value = strtod(text, &end);
  size_t unit = 1;
  switch (*end) {
    case 'K':
    case 'k':
      unit = size_t{1} << 10;
      ++end;
      break;
    case 'M':
    case 'm':
      unit = size_t{1} << 20;
      ++end;
      break;
    case 'G':
    case 'g':
      unit = size_t{1} << 30;
      ++end;
      break;
    default:
      break;
  }
  return end != text && *end == '\0' && value > 0
             ? static_cast<size_t>(value * static_cast<double>(unit))
             : 0;
}

// Makes freed bytes read as zeros and returns their pages to the system where no neighbour needs
// them.
void clear(DeviceMemory& memory, size_t offset, size_t bytes, Arena::Hole hole) {
  size_t first = offset / kPageBytes * kPageBytes;
  size_t last = round_up(offset + bytes, kPageBytes);
  if (first < hole.offset) {
    memset(memory.base + offset, 0, std::min(bytes, first + kPageBytes - offset));
    first += kPageBytes;
  }
  if (last > first && last > hole.offset + hole.bytes) {
    const size_t start = std::max(offset, last - kPageBytes);
    memset(memory.base + start, 0, offset + bytes - start);
    last -= kPageBytes;
  }
  if (last > first && fallocate(memory.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                static_cast<off_t>(first), static_cast<off_t>(last - first)) != 0) {
    memset(memory.base + first, 0, last - first);
  }
}

size_t context_bytes() {
  static const size_t bytes = [] {
    const char* text = getenv("SIMGPU_CONTEXT_MB");
    return text ? static_cast<size_t>(strtoull(text, nullptr, 10)) << 20 : 0;
  }();
  return bytes;
}

void open_device(DeviceMemory& memory, int device) {
  memory.device = device;
  const size_t bytes = device_capacity();
  memory.file = create_memory_file(("simgpu-device" + std::to_string(device)).c_str(), bytes);
  if (memory.file < 0) {
    return;
  }
  void* base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory.file, 0);
  if (base != MAP_FAILED) {
    memory.base = static_cast<std::byte*>(base);
    madvise(base, bytes, MADV_DONTDUMP);
  }
}

}  // namespace

size_t device_capacity() {
  static const size_t bytes = [] {
    const char* text = getenv("SIMGPU_MEMORY");
    if (!text || !*text) {
      return kDefaultBytes;
    }
    const size_t asked = parse_bytes(text);
    if (asked == 0) {
      fprintf(stderr, "simgpu: SIMGPU_MEMORY: '%s' is not a size, using 16G\n", text);
      return kDefaultBytes;
    }
    return round_up(asked, kPageBytes);
  }();
  return bytes;
}

int create_memory_file(const char* name, size_t bytes) {
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    close(file);
    return -1;
  }
  return file;
}

DeviceMemory& device_memory(int device) {
  static auto& memories = *new std::array<DeviceMemory, kMaxDevices>;
  static auto& opened = *new std::array<std::once_flag, kMaxDevices>;
  std::call_once(opened[device], [device] { open_device(memories[device], device); });
  return memories[device];
}

std::shared_ptr<Block> Block::take(int device, size_t bytes, size_t alignment) {
  DeviceMemory& memory = device_memory(device);
  const size_t capacity = device_capacity();
  if (!memory.base || bytes > capacity) {
    return nullptr;
  }
  const size_t rounded = Arena::rounded(bytes);
  if (!NodeAccount::get().charge(device, rounded, capacity)) {
    return nullptr;
  }
  std::optional<size_t> offset;
  {
    const std::lock_guard lock(memory.mutex);
    offset = memory.arena.take(rounded, alignment);
  }
  if (!offset) {
    NodeAccount::get().refund(device, rounded);
    return nullptr;
  }
  return std::make_shared<Block>(memory, *offset, rounded);
}

Block::~Block() {
  {
    const std::lock_guard lock(memory_.mutex);
    clear(memory_, offset_, bytes_, memory_.arena.give(offset_, bytes_));
  }
  NodeAccount::get().refund(memory_.device, bytes_);
}

std::shared_ptr<Physical> Physical::create(int device, size_t bytes) {
  const bool charged = device >= 0;
  if (charged && !NodeAccount::get().charge(device, bytes, device_capacity())) {
    return nullptr;
  }
  // Importing processes read the device from the name.
  const int file = create_memory_file(("simgpu-physical" + std::to_string(device)).c_str(), bytes);
  if (file < 0) {
    if (charged) {
      NodeAccount::get().refund(device, bytes);
    }
    return nullptr;
  }
  return std::make_shared<Physical>(file, device, bytes, charged);
}

std::shared_ptr<Physical> Physical::import(int file, int device, size_t bytes) {
  return std::make_shared<Physical>(file, device, bytes, false);
}

Physical::~Physical() {
  close(file_);
  if (charged_) {
    NodeAccount::get().refund(device_, bytes_);
  }
}

CUresult allocate_linear(Context& context, size_t bytes, RangePtr& out) {
  std::shared_ptr<Block> block = Block::take(context.device, bytes);
  if (!block) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto range = std::make_shared<Range>();
  range->base = reinterpret_cast<uintptr_t>(block->data());
  range->bytes = bytes;
  range->kind = RangeKind::kDevice;
  range->device = context.device;
  range->context = &context;
  range->file = block->file();
  range->file_offset = block->offset();
  range->backing = std::move(block);
  address_map().insert(range);
  out = std::move(range);
  return CUDA_SUCCESS;
}

CUresult synchronize_users(const Range& range) {
  if (range.context && range.context->alive) {
    SIMGPU_TRY(synchronize(*range.context));
  }
  Context* current = current_context();
  if (current && current != range.context && current->alive) {
    SIMGPU_TRY(synchronize(*current));
  }
  return CUDA_SUCCESS;
}

CUresult charge_context(Context& context) {
  NodeAccount& account = NodeAccount::get();
  return account.charge(context.device, context_bytes(), device_capacity())
             ? CUDA_SUCCESS
             : CUDA_ERROR_OUT_OF_MEMORY;
}

void release_memory(Context& context) {
  forget_opened(context);
  release_pool_memory(context);
  release_arrays(context);
  address_map().remove_if([&](const Range& range) { return range.context == &context; });
  NodeAccount::get().refund(context.device, context_bytes());
}

}  // namespace simgpu
