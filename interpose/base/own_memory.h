// Reading memory of the job that another thread may unmap at any time: a load could fault, so the
// kernel copies it.
#pragma once

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace traintrace {

// False: not all of it can be read.  One system call; errno stays.  `tid` is any thread of this
// process, so that nobody need ask for its id.
//
// As process_vm_readv would, but with the sides exchanged: the kernel reaches the other side, here
// `to`, through its page tables and refuses device mappings there (VM_IO, as the NVIDIA driver
// makes pinned memory); this side it copies as for any system call.
inline bool copy_own_memory(int32_t tid, const iovec* from, unsigned long count, void* to,
                            size_t bytes) noexcept {
  const int saved_errno = errno;
  const iovec all = {to, bytes};
  const long copied = syscall(SYS_process_vm_writev, tid, from, count, &all, 1, 0);
  errno = saved_errno;
  return copied == static_cast<long>(bytes);
}

}  // namespace traintrace
