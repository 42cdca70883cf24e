// What the 64 bytes of an IPC handle contain.
#pragma once
#include <cuda.h>

#include <cstring>

#include "cuda/process.h"
#include "cuda/state.h"

namespace simgpu {

constexpr uint32_t kIpcMemory = 0x4d504953;
constexpr uint32_t kIpcEvent = 0x45504953;
constexpr uint32_t kIpcPoolPointer = 0x50504953;

struct IpcName {
  uint32_t kind;
  int32_t device;
  RemoteFile file;
  uint64_t offset;
  uint64_t bytes;
  uint64_t id;  // of the allocation: tells two allocations at one place apart
};
static_assert(sizeof(IpcName) <= 64);

template <class Handle>
void write_ipc_name(const IpcName& name, Handle& handle) {
  memset(&handle, 0, sizeof handle);
  memcpy(&handle, &name, sizeof name);
}

// False if it is no handle of that kind.
template <class Handle>
bool read_ipc_name(const Handle& handle, uint32_t kind, IpcName& name) {
  memcpy(&name, &handle, sizeof name);
  return name.kind == kind;
}

// Closes what a context that goes away has opened.
void forget_opened(Context& context);

}  // namespace simgpu
