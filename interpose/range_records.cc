#include "interpose/range_records.h"

#include "interpose/open_call.h"
#include "interpose/ranges.h"
#include "interpose/stats.h"

namespace traintrace {
namespace {

using format::Moment;

// Null: nothing is recorded here.  `pushes`: what this is to the thread's open ranges, +1, -1 or 0.
[[gnu::always_inline]] inline ThreadState* begin(InsideMark& mark, int pushes) {
  ThreadState* const thread = thread_to_record(false);
  if (thread == nullptr) {
    return nullptr;
  }
  if (!enter_tracer_if_free(*thread, mark)) [[unlikely]] {
    refuse_in_signal(*thread);
    thread->unseen_pushes += pushes > 0 ? 1 : pushes < 0 && thread->unseen_pushes > 0 ? -1 : 0;
    return nullptr;
  }
  return thread;
}

void write(ThreadState& thread, Moment moment, const uint64_t* fields, int field_count,
           uint64_t ticks) {
  write_moment(thread, moment, ticks, thread.device, 0, fields, field_count);
}

}  // namespace

void range_pushed(const Registered* domain, const RangeName& name) noexcept {
  InsideMark mark;
  if (ThreadState* const thread = begin(mark, 1)) {
    const uint64_t ticks = clock_ticks();
    const uint64_t id = id_of_range(*thread, domain, name);
    range_opened(*thread, domain, static_cast<uint32_t>(id), name, ticks);
    write(*thread, Moment::nvtxRangePush, &id, 1, ticks);
    leave_tracer(*thread);
  }
}

void range_popped(const Registered* domain) noexcept {
  InsideMark mark;
  ThreadState* const thread = begin(mark, -1);
  if (thread == nullptr) {
    return;
  }
  uint32_t id = 0;
  if (thread->unseen_pushes > 0) [[unlikely]] {
    --thread->unseen_pushes;
  } else if (range_closed(*thread, domain, id)) [[likely]] {
    const uint64_t field = id;
    write(*thread, Moment::nvtxRangePop, &field, 1, clock_ticks());
  } else {
    count(format::Stat::UnknownRangeEnd);
  }
  leave_tracer(*thread);
}

void range_started(const Registered* domain, const RangeName& name, uint64_t handle) noexcept {
  InsideMark mark;
  if (ThreadState* const thread = begin(mark, 0)) {
    const uint64_t fields[] = {id_of_range(*thread, domain, name), handle};
    write(*thread, Moment::nvtxRangeStart, fields, 2, clock_ticks());
    leave_tracer(*thread);
  }
}

void range_ended(uint64_t handle) noexcept {
  InsideMark mark;
  if (ThreadState* const thread = begin(mark, 0)) {
    write(*thread, Moment::nvtxRangeEnd, &handle, 1, clock_ticks());
    leave_tracer(*thread);
  }
}

void range_marked(const Registered* domain, const RangeName& name) noexcept {
  InsideMark mark;
  if (ThreadState* const thread = begin(mark, 0)) {
    const uint64_t id = id_of_range(*thread, domain, name);
    write(*thread, Moment::nvtxMark, &id, 1, clock_ticks());
    leave_tracer(*thread);
  }
}

}  // namespace traintrace
