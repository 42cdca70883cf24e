// Device memory of other processes.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "cuda/ipc.h"
#include "cuda/memory.h"
#include "cuda/old_names.h"

namespace simgpu {
namespace {

// A view of another process's linear memory.  Files are mapped by pages, allocations begin every
// 512 bytes.
class Mapping {
 public:
  static std::shared_ptr<Mapping> open(const IpcName& name) {
    const int file = name.file.open();
    if (file < 0) {
      return nullptr;
    }
    const uint64_t start = name.offset / kPageBytes * kPageBytes;
    const size_t bytes = round_up(name.offset + name.bytes - start, kPageBytes);
    void* memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(start));
    close(file);
    return memory == MAP_FAILED ? nullptr
                                : std::make_shared<Mapping>(memory, bytes, name.offset - start);
  }
  Mapping(void* memory, size_t bytes, size_t skip) : memory_(memory), bytes_(bytes), skip_(skip) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { munmap(memory_, bytes_); }

  uintptr_t address() const { return reinterpret_cast<uintptr_t>(memory_) + skip_; }

 private:
  void* memory_;
  size_t bytes_;
  size_t skip_;
};

// An allocation of another process, opened in a context.
using Key = std::tuple<Context*, int32_t, uint64_t, int32_t, uint64_t, uint64_t>;

struct Opened {
  RangePtr range;
  unsigned count;
};

struct OpenedTable {
  std::mutex mutex;
  std::map<Key, Opened> all;
};
OpenedTable& opened_table() {
  static OpenedTable& table = *new OpenedTable;
  return table;
}

RangePtr map_remote(Context& context, const IpcName& name) {
  std::shared_ptr<Mapping> mapping = Mapping::open(name);
  if (!mapping) {
    return nullptr;
  }
  auto range = std::make_shared<Range>();
  range->base = mapping->address();
  range->bytes = name.bytes;
  range->kind = RangeKind::kIpc;
  range->device = valid_device(name.device) ? name.device : context.device;
  range->context = &context;
  range->backing = std::move(mapping);
  address_map().insert(range);
  return range;
}

}  // namespace

void forget_opened(Context& context) {
  OpenedTable& table = opened_table();
  const std::lock_guard lock(table.mutex);
  std::erase_if(table.all, [&](const auto& item) { return std::get<0>(item.first) == &context; });
}

}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  SIMGPU_CONTEXT_ENTER();
  const RangePtr range = address_map().find(address);
  if (!handle || !range || range->kind != RangeKind::kDevice) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  write_ipc_name({kIpcMemory, range->device, RemoteFile::own(range->file), range->file_offset,
                  range->bytes, range->id},
                 *handle);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle,
                                       unsigned flags) {
  SIMGPU_CONTEXT_ENTER();
  if (!address || (flags & ~CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  IpcName name;
  if (!read_ipc_name(handle, kIpcMemory, name)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (name.file.ours()) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  Context& context = *current_context();
  OpenedTable& table = opened_table();
  const std::lock_guard lock(table.mutex);
  const Key key{&context,       name.file.pid, name.file.start_time,
                name.file.file, name.offset,   name.id};
  auto found = table.all.find(key);
  if (found == table.all.end()) {
    RangePtr range = map_remote(context, name);
    if (!range) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    found = table.all.emplace(key, Opened{std::move(range), 0}).first;
  }
  ++found->second.count;
  *address = found->second.range->base;
  return CUDA_SUCCESS;
}

// The last close waits for the work that may use the memory, without the lock.
extern "C" CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  SIMGPU_CONTEXT_ENTER();
  const RangePtr range = address_map().find(address);
  if (!range || range->kind != RangeKind::kIpc || range->base != address) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(synchronize_users(*range));
  OpenedTable& table = opened_table();
  const std::lock_guard lock(table.mutex);
  const auto same = [&](const auto& item) { return item.second.range == range; };
  const auto opened = std::find_if(table.all.begin(), table.all.end(), same);
  if (opened == table.all.end()) {
    return CUDA_ERROR_INVALID_VALUE;  // closed by another thread meanwhile
  }
  if (--opened->second.count == 0) {
    address_map().remove(address, [&](const Range& other) { return other.id == range->id; });
    table.all.erase(opened);
  }
  return CUDA_SUCCESS;
}

#undef cuIpcOpenMemHandle
SIMGPU_OLD_NAME(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2);
