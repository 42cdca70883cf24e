#include "interpose/open_call.h"

#include "interpose/stats.h"

namespace traintrace {

uint64_t g_selected_calls[(format::kCallCount + format::kMomentCount + 63) / 64];

void refuse_in_signal(ThreadState& thread) noexcept {
  ++thread.slot->dropped;
  count(format::Stat::NestedInSignal);
}

void unfold_query(OpenFrame& frame, const uint64_t* fields, int field_count, int outcome) noexcept {
  ThreadState& thread = *frame.thread;
  thread.last_query_outcome = outcome;
  thread.slot->queries--;
  frame.recorded =
      write_enter(thread, frame.call, frame.ticks, frame.caller, frame.stack, fields, field_count);
}

bool write_moment(ThreadState& thread, format::Moment moment, uint64_t ticks, uint8_t device,
                  uint32_t stack, const uint64_t* fields, int field_count) noexcept {
  if (!selected(format::id_of(moment))) {
    return false;
  }
  const int words = 2 + field_count;
  uint64_t* const word = room_for(thread, words);
  if (!word) [[unlikely]] {
    drop_call(thread);
    return false;
  }
  write_head(
      word,
      {format::id_of(moment), static_cast<uint8_t>(words & 63), format::kMoment, device, stack},
      ticks);
  __builtin_memcpy(word + 2, fields, static_cast<size_t>(field_count) * sizeof *fields);
  commit_record(thread, word + words);
  return true;
}

}  // namespace traintrace
