#include "interpose/range_records.h"

#include <string.h>

#include "interpose/files.h"
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

void pushed(Moment moment, const Registered* domain, uint32_t domain_number,
            const RangeName& name) {
  InsideMark mark;
  if (ThreadState* const thread = begin(mark, 1)) {
    const uint64_t ticks = clock_ticks();
    const uint64_t id = id_of_range(*thread, domain, name);
    range_opened(*thread, domain_number, static_cast<uint32_t>(id), name, ticks);
    write(*thread, moment, &id, 1, ticks);
    leave_tracer(*thread);
  }
}

void popped(Moment moment, uint32_t domain_number) {
  InsideMark mark;
  ThreadState* const thread = begin(mark, -1);
  if (thread == nullptr) {
    return;
  }
  uint32_t id = 0;
  if (thread->unseen_pushes > 0) [[unlikely]] {
    --thread->unseen_pushes;
  } else if (range_closed(*thread, domain_number, id)) [[likely]] {
    const uint64_t field = id;
    write(*thread, moment, &field, 1, clock_ticks());
  } else {
    count(format::Stat::UnknownRangeEnd);
  }
  leave_tracer(*thread);
}

void marked(Moment moment, const Registered* domain, const RangeName& name) {
  InsideMark mark;
  if (ThreadState* const thread = begin(mark, 0)) {
    const uint64_t id = id_of_range(*thread, domain, name);
    write(*thread, moment, &id, 1, clock_ticks());
    leave_tracer(*thread);
  }
}

struct NoteText {
  const char* chars;
  size_t bytes;
};

void write_note(ThreadState& thread, uint32_t key, NoteText text, uint64_t ticks) {
  constexpr int kFields = 3;
  constexpr size_t kWords = 8;
  constexpr size_t kBytes = kWords * sizeof(uint64_t);
  size_t offset = 0;
  do {
    uint64_t fields[kFields + kWords] = {key, offset, text.bytes};
    const size_t left = text.bytes - offset;
    memcpy(fields + kFields, text.chars + offset, left < kBytes ? left : kBytes);
    write(thread, Moment::note, fields, kFields + kWords, ticks);
    offset += kBytes;
  } while (offset < text.bytes);
}

}  // namespace

void range_pushed(const Registered* domain, const RangeName& name) noexcept {
  pushed(Moment::nvtxRangePush, domain, number_of(domain), name);
}

void range_popped(const Registered* domain) noexcept {
  popped(Moment::nvtxRangePop, number_of(domain));
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
  marked(Moment::nvtxMark, domain, name);
}

void marker_pushed(const RangeName& name) noexcept {
  pushed(Moment::rangePush, nullptr, format::kMarkerDomain, name);
}

void marker_popped() noexcept {
  popped(Moment::rangePop, format::kMarkerDomain);
}

void marker_marked(const RangeName& name) noexcept {
  marked(Moment::mark, nullptr, name);
}

void step_begun(int64_t number) noexcept {
  InsideMark mark;
  if (ThreadState* const thread = begin(mark, 0)) {
    const uint64_t ticks = clock_ticks();
    char storage[32];
    Text text(storage, sizeof storage);
    text << "step " << number;
    range_replaced(*thread, format::kStepDomain, {1, storage, static_cast<uint32_t>(text.length())},
                   ticks);
    const auto field = static_cast<uint64_t>(number);
    write(*thread, Moment::step, &field, 1, ticks);
    leave_tracer(*thread);
  }
}

void note_made(const RangeName& key, const char* text) noexcept {
  InsideMark mark;
  if (ThreadState* const thread = begin(mark, 0)) {
    const uint64_t ticks = clock_ticks();
    const size_t bytes = strnlen(text, kMostRangeName);
    char storage[sizeof format::OpenRange::name + 1];
    Text both(storage, sizeof storage);
    both.append(key.text, key.bytes) << " ";
    both.append(text, bytes);
    const uint32_t domain = format::kNoteDomain | static_cast<uint32_t>(key.hash >> 34);
    range_replaced(*thread, domain, {1, storage, static_cast<uint32_t>(strlen(storage))}, ticks);
    write_note(*thread, id_of_range(*thread, nullptr, key), {text, bytes}, ticks);
    leave_tracer(*thread);
  }
}

}  // namespace traintrace
