// Registered buffers and windows: checked and remembered, nothing becomes faster by them.
// SIMGPU_DIFFERS(ncclCommWindowRegister): any device memory will do, and the window is only a
// handle, since the device-side functions that would use it are not there
#include "nccl/api.h"
#include "nccl/debug.h"
#include "nccl/group.h"

struct ncclWindow_vidmem {
  void* buffer;
  size_t bytes;
};

namespace simgpu::nccl {
namespace {

ncclResult_t check_buffer(const char* call, const void* buffer, size_t bytes) {
  if (!buffer || bytes == 0) {
    warn("%s : buffer %p of %zu bytes", call, buffer, bytes);
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

ncclResult_t forget(Communicator& comm, void* handle, const char* call) {
  const std::lock_guard lock(comm.mutex);
  if (comm.registrations.erase(handle) == 0) {
    warn("%s : unknown handle %p", call, handle);
    return ncclInvalidArgument;
  }
  delete static_cast<ncclWindow_vidmem*>(handle);
  return ncclSuccess;
}

void* remember(Communicator& comm, void* buffer, size_t bytes) {
  auto* made = new ncclWindow_vidmem{buffer, bytes};
  const std::lock_guard lock(comm.mutex);
  comm.registrations.insert(made);
  return made;
}

// All ranks register a window together: the call returns when the last has come.
Job window_job(Communicator& comm, ncclWindow_t window) {
  const uint32_t ordinal = ++comm.windows;
  Communicator* self = &comm;
  const auto arrive = [self, ordinal](const Stop&) {
    self->cell().windows.store(ordinal);
    self->segment->ring_all();
    return ncclSuccess;
  };
  const auto wait = [self, ordinal](const Stop& stop) {
    const auto all = [&] {
      for (int rank = 0; rank < self->rank_count; ++rank) {
        if (self->segment->cell(rank).windows.load() < ordinal) {
          return false;
        }
      }
      return true;
    };
    const bool complete = wait_on(self->cell().bell, all, [&] { return stop.load(); });
    return complete ? ncclSuccess : ncclInternalError;
  };
  const auto finish = [self, window](ncclResult_t result) {
    if (result != ncclSuccess) {
      forget(*self, window, "ncclCommWindowRegister");
    }
  };
  return Job{&comm, nullptr, {arrive, wait}, finish};
}

}  // namespace
}  // namespace simgpu::nccl

using namespace simgpu::nccl;

SIMGPU_NCCL_EXPORT(ncclCommRegister);
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  SIMGPU_ENTER(ncclResult_t);
  ncclResult_t result = check_ready(comm, "ncclCommRegister");
  result = result == ncclSuccess ? check_pointer(handle, "ncclCommRegister", "handle") : result;
  result = result == ncclSuccess ? check_buffer("ncclCommRegister", buff, size) : result;
  if (result == ncclSuccess) {
    *handle = remember(*comm, buff, size);
  }
  return result;
}

SIMGPU_NCCL_EXPORT(ncclCommDeregister);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  SIMGPU_ENTER(ncclResult_t);
  const ncclResult_t result = check_comm(comm, "ncclCommDeregister");
  return result == ncclSuccess && handle ? forget(*comm, handle, "ncclCommDeregister") : result;
}

SIMGPU_NCCL_EXPORT(ncclCommWindowRegister);
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                    int win_flags) {
  SIMGPU_ENTER(ncclResult_t);
  ncclResult_t result = check_ready(comm, "ncclCommWindowRegister");
  result = result == ncclSuccess ? check_pointer(win, "ncclCommWindowRegister", "win") : result;
  result = result == ncclSuccess ? check_buffer("ncclCommWindowRegister", buff, size) : result;
  const bool aligned = reinterpret_cast<uintptr_t>(buff) % NCCL_WIN_REQUIRED_ALIGNMENT == 0;
  if (result == ncclSuccess && ((win_flags & ~NCCL_WIN_COLL_SYMMETRIC) != 0 || !aligned)) {
    warn("ncclCommWindowRegister : buffer %p or flags %d", buff, win_flags);
    result = ncclInvalidArgument;
  }
  if (result != ncclSuccess) {
    return group_fail(result);
  }
  *win = static_cast<ncclWindow_t>(remember(*comm, buff, size));
  return run_job(window_job(*comm, *win));
}

SIMGPU_NCCL_EXPORT(ncclCommWindowDeregister);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  SIMGPU_ENTER(ncclResult_t);
  const ncclResult_t result = check_comm(comm, "ncclCommWindowDeregister");
  return result == ncclSuccess && win ? forget(*comm, win, "ncclCommWindowDeregister") : result;
}
