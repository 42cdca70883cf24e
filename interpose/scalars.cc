#include "interpose/scalars.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "interpose/facts.h"
#include "interpose/stderr_line.h"
#include "interpose/told.h"

namespace traintrace {
namespace {

constexpr const char* kRefused = "process_vm_writev is refused";

// As process_vm_readv would, but with the sides exchanged: the kernel reaches the other side, which
// is `value`, through its page tables and refuses device mappings there (VM_IO, as the NVIDIA
// driver makes pinned memory); this side it copies as for any system call.  The thread's own id is
// the process's, and spares a system call.
bool copy_own_memory(int32_t tid, uint64_t address, uint64_t bytes, uint64_t& value) {
  const int saved_errno = errno;
  const iovec from = {reinterpret_cast<void*>(address), bytes};
  const iovec to = {&value, bytes};
  const long copied = syscall(SYS_process_vm_writev, tid, &from, 1, &to, 1, 0);
  errno = saved_errno;
  return copied == static_cast<long>(bytes);
}

}  // namespace

void read_scalar(ThreadState& thread, const CopyToHost& copy, uint32_t stack,
                 uint64_t ticks) noexcept {
  uint64_t value = 0;
  if (selected(format::id_of(format::Moment::scalarRead)) &&
      copy_own_memory(thread.tid, copy.address, copy.bytes, value)) {
    const uint64_t fields[] = {copy.bytes, value};
    write_moment(thread, format::Moment::scalarRead, ticks, thread.device, stack, fields, 2);
  }
}

void read_pending_scalars(ThreadState& thread, const uint64_t* stream, uint64_t ticks) noexcept {
  PendingScalars& scalars = thread.scalars;
  for (uint32_t i = 0; i < scalars.count; ++i) {
    const PendingScalars::Copy& copy = scalars.copies[i];
    if (stream == nullptr || copy.stream == *stream) {
      read_scalar(thread, {copy.address, copy.bytes, copy.stream}, copy.stack, ticks);
    }
  }
  scalars.count = 0;
}

void payload_start(ThreadState& thread, const Settings& settings) noexcept {
  g_payload = settings.payload;
  uint64_t seen = 0;
  const uint64_t known = settings.ring_mb;
  if (g_payload != Payload::kOff &&
      !copy_own_memory(gettid(), reinterpret_cast<uint64_t>(&known), sizeof known, seen)) {
    g_payload = Payload::kOff;
    write_fact(thread, "payload", "none: process_vm_writev is refused");
    if (settings.payload_asked) {
      tell_refused(format::Setting::Payload, "no values are recorded", kRefused);
      write_fact(thread, "payload-refused", kRefused);
    }
  }
  if (g_payload > Payload::kScalars) {
    g_payload = Payload::kScalars;
    constexpr const char* kLimited = "acts as scalars: the rest is not built yet";
    tell_refused(format::Setting::Payload, "fewer values are recorded", kLimited);
    write_fact(thread, "payload-limited", kLimited);
  }
}

}  // namespace traintrace
