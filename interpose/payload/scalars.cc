#include "interpose/payload/scalars.h"

#include "interpose/base/own_memory.h"
#include "interpose/life/call_filters.h"
#include "interpose/life/facts.h"
#include "interpose/life/stderr_line.h"
#include "interpose/life/told.h"
#include "interpose/payload/batches.h"

namespace traintrace {
namespace {

constexpr const char* kRefused = "process_vm_writev is refused";

}  // namespace

void read_scalar(ThreadState& thread, const CopyToHost& copy, uint32_t stack,
                 uint64_t ticks) noexcept {
  uint64_t value = 0;
  const iovec from = {reinterpret_cast<void*>(copy.address), copy.bytes};
  if (selected(format::id_of(format::Moment::scalarRead)) &&
      !is_avoided(copy.address, copy.bytes) && !call_filters_were_added() &&
      copy_own_memory(thread.tid, &from, 1, &value, copy.bytes)) {
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
  uint64_t here = 0;
  uint64_t there = 0;
  const iovec from = {&here, sizeof here};
  if (g_payload != Payload::kOff && !copy_own_memory(gettid(), &from, 1, &there, sizeof there)) {
    g_payload = Payload::kOff;
    write_fact(thread, "payload", "none: process_vm_writev is refused");
    if (settings.payload_asked) {
      tell_refused(format::Setting::Payload, "no values are recorded", kRefused);
      write_fact(thread, "payload-refused", kRefused);
    }
  }
}

}  // namespace traintrace
