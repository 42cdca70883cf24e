#include "interpose/nvtx/range_records.h"

#include <string.h>

#include "interpose/base/files.h"
#include "interpose/calls/open_call.h"
#include "interpose/nvtx/early_ranges.h"
#include "interpose/nvtx/ranges.h"
#include "interpose/record/stats.h"
#include "interpose/tables/tables.h"

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

bool is_early() {
  return armed_generation() == 0;
}

void write(ThreadState& thread, Moment moment, const uint64_t* fields, int field_count,
           uint64_t ticks) {
  write_moment(thread, moment, ticks, thread.device, 0, fields, field_count);
}

// A category without a name is called by its number.  0: there is none.
[[gnu::noinline]] uint64_t id_of_category(ThreadState& thread, const RangeExtras& extras) {
  if (extras.category == 0) {
    return 0;
  }
  const Registered* const name = extras.category_name;
  if (name != nullptr && load(name->ready) != 0) {
    return id_of_range(thread, nullptr, {name->hash, name->text, name->bytes});
  }
  char storage[16];
  Text text(storage, sizeof storage);
  text << int64_t{extras.category};
  return id_of_range(thread, nullptr, range_name(kDefaultDomainHash, storage));
}

// A record of `plain` with these fields or, where there are extras, of `with_extras` with more.
struct Moments {
  Moment plain;
  Moment with_extras;
};
template <int kFields>
[[gnu::always_inline]] inline void write_with(ThreadState& thread, Moments moments,
                                              const uint64_t (&fields)[kFields],
                                              const RangeExtras& extras, uint64_t ticks) {
  if (extras.category == 0 && extras.payload_type == 0) [[likely]] {
    write(thread, moments.plain, fields, kFields, ticks);
    return;
  }
  uint64_t all[kFields + 3];
  memcpy(all, fields, sizeof fields);
  all[kFields] = id_of_category(thread, extras);
  all[kFields + 1] = static_cast<uint64_t>(extras.payload_type);
  all[kFields + 2] = extras.payload;
  write(thread, moments.with_extras, all, kFields + 3, ticks);
}

constexpr Moments kPush = {Moment::nvtxRangePush, Moment::nvtxRangePushEx};
constexpr Moments kStart = {Moment::nvtxRangeStart, Moment::nvtxRangeStartEx};
constexpr Moments kMark = {Moment::nvtxMark, Moment::nvtxMarkEx};
constexpr Moments kMarkerPush = {Moment::rangePush, Moment::rangePush};  // they have no extras
constexpr Moments kMarkerMark = {Moment::mark, Moment::mark};

[[gnu::always_inline]] inline void record_push(ThreadState& thread, Moments moments,
                                               const Registered* domain, uint32_t domain_number,
                                               const RangeName& name, const RangeExtras& extras,
                                               uint64_t ticks) {
  const uint64_t fields[] = {id_of_range(thread, domain, name)};
  range_opened(thread, domain_number, static_cast<uint32_t>(fields[0]), name, ticks);
  write_with(thread, moments, fields, extras, ticks);
}

[[gnu::always_inline]] inline void pushed(Moments moments, const Registered* domain,
                                          uint32_t domain_number, const RangeName& name,
                                          const RangeExtras& extras) {
  InsideMark mark;
  if (ThreadState* const thread = begin(mark, 1)) [[likely]] {
    record_push(*thread, moments, domain, domain_number, name, extras, clock_ticks());
    leave_tracer(*thread);
  } else if (is_early()) {
    early_pushed(domain, domain_number, name);
  }
}

// `name`: which one; null: the innermost.
void popped(Moment moment, uint32_t domain_number, const RangeName* name = nullptr) {
  InsideMark mark;
  ThreadState* const thread = begin(mark, -1);
  if (thread == nullptr) {
    if (is_early()) {
      early_popped(domain_number);
    }
    return;
  }
  const uint32_t wanted = name == nullptr ? 0 : id_of_range(*thread, nullptr, *name);
  uint32_t id = 0;
  if (thread->unseen_pushes > 0) [[unlikely]] {
    --thread->unseen_pushes;
  } else if (range_closed(*thread, domain_number, id, wanted)) [[likely]] {
    const uint64_t field = id;
    write(*thread, moment, &field, 1, clock_ticks());
  } else {
    count(format::Stat::UnknownRangeEnd);
  }
  leave_tracer(*thread);
}

void marked(Moments moments, const Registered* domain, const RangeName& name,
            const RangeExtras& extras) {
  InsideMark mark;
  if (ThreadState* const thread = begin(mark, 0)) {
    const uint64_t fields[] = {id_of_range(*thread, domain, name)};
    write_with(*thread, moments, fields, extras, clock_ticks());
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

void record_push(ThreadState& thread, const Registered* domain, uint32_t domain_number,
                 const RangeName& name, uint64_t ticks) noexcept {
  record_push(thread, domain_number == format::kMarkerDomain ? kMarkerPush : kPush, domain,
              domain_number, name, {}, ticks);
}

void record_step(ThreadState& thread, int64_t number, uint64_t ticks) noexcept {
  char storage[32];
  Text text(storage, sizeof storage);
  text << "step " << number;
  range_replaced(thread, format::kStepDomain, {1, storage, static_cast<uint32_t>(text.length())},
                 ticks);
  const auto field = static_cast<uint64_t>(number);
  write(thread, Moment::step, &field, 1, ticks);
}

void record_note(ThreadState& thread, const RangeName& key, const char* text,
                 uint64_t ticks) noexcept {
  const size_t bytes = strnlen(text, kMostRangeName);
  char storage[sizeof format::OpenRange::name + 1];
  Text both(storage, sizeof storage);
  both.append(key.text, key.bytes) << " ";
  both.append(text, bytes);
  range_replaced(thread, note_domain(key), {1, storage, static_cast<uint32_t>(strlen(storage))},
                 ticks);
  write_note(thread, id_of_range(thread, nullptr, key), {text, bytes}, ticks);
}

void range_pushed(const Registered* domain, const RangeName& name,
                  const RangeExtras& extras) noexcept {
  pushed(kPush, domain, number_of(domain), name, extras);
}

void range_popped(const Registered* domain) noexcept {
  popped(Moment::nvtxRangePop, number_of(domain));
}

void range_started(const Registered* domain, const RangeName& name, uint64_t handle,
                   const RangeExtras& extras) noexcept {
  InsideMark mark;
  if (ThreadState* const thread = begin(mark, 0)) {
    const uint64_t fields[] = {id_of_range(*thread, domain, name), handle};
    write_with(*thread, kStart, fields, extras, clock_ticks());
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

void range_marked(const Registered* domain, const RangeName& name,
                  const RangeExtras& extras) noexcept {
  marked(kMark, domain, name, extras);
}

void marker_pushed(const RangeName& name) noexcept {
  pushed(kMarkerPush, nullptr, format::kMarkerDomain, name, {});
}

void marker_popped() noexcept {
  popped(Moment::rangePop, format::kMarkerDomain);
}

void marker_ended(const RangeName& name) noexcept {
  popped(Moment::rangePop, format::kMarkerDomain, &name);
}

void marker_marked(const RangeName& name) noexcept {
  marked(kMarkerMark, nullptr, name, {});
}

void step_begun(int64_t number) noexcept {
  InsideMark mark;
  if (ThreadState* const thread = begin(mark, 0)) {
    record_step(*thread, number, clock_ticks());
    leave_tracer(*thread);
  } else if (is_early()) {
    early_step(number);
  }
}

void note_made(const RangeName& key, const char* text) noexcept {
  InsideMark mark;
  if (ThreadState* const thread = begin(mark, 0)) {
    record_note(*thread, key, text, clock_ticks());
    leave_tracer(*thread);
  } else if (is_early()) {
    early_note(key, text);
  }
}

}  // namespace traintrace
