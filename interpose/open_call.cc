#include "interpose/open_call.h"

#include "interpose/stats.h"

namespace traintrace {

uint64_t g_selected_calls[(format::kCallCount + 63) / 64];

void refuse_in_signal(ThreadState& thread) noexcept {
  ++thread.slot->dropped;
  count(format::Stat::NestedInSignal);
}

void unfold_query(OpenFrame& frame, const uint64_t* fields, int field_count, int outcome) noexcept {
  ThreadState& thread = *frame.thread;
  if (thread.last_query_outcome == outcome) {
    return;
  }
  thread.last_query_outcome = outcome;
  thread.slot->queries--;
  frame.recorded =
      write_enter(thread, frame.call, frame.ticks, frame.caller, frame.stack, fields, field_count);
}

}  // namespace traintrace
