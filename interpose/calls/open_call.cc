#include "interpose/calls/open_call.h"

#include <signal.h>

#include "interpose/base/unwound.h"
#include "interpose/record/stats.h"
#include "interpose/stacks/unwind_stack.h"

namespace traintrace {

uint64_t g_selected_calls[(format::kCallCount + format::kMomentCount + 63) / 64];

namespace {

bool is_on_signal_stack() {
  stack_t stack;
  return sigaltstack(nullptr, &stack) == 0 && (stack.ss_flags & SS_ONSTACK) != 0;
}

bool is_on_own_stack(const void* address) {
  StackRange range;
  return stack_around(reinterpret_cast<uint64_t>(address), true, range) && range.whole;
}

// Of a mark that holds its own address scrambled: whether the stack has been cut back beyond it.
// Only what is sure counts: on the thread's own stack, nothing deeper than the caller is alive, and
// what does not hold its mark was overwritten.  Signal stacks and coroutines have orders of their
// own.
bool was_left(const uint64_t* mark, const void* here) {
  return is_on_own_stack(here) && is_on_own_stack(mark) && !is_on_signal_stack() &&
         (mark < here || *mark != scrambled(mark));
}

void forget_open(ThreadState& thread, Layer layer) {
  thread.open_frame[static_cast<int>(layer)] = nullptr;
  if (is_shown(layer)) {
    __atomic_store_n(&thread.slot->open[static_cast<int>(layer)].enter_ticks, 0, __ATOMIC_RELEASE);
  }
}

}  // namespace

bool is_still_inside(ThreadState& thread, const void* here) noexcept {
  const uint64_t* const mark = thread.inside;
  if (mark != nullptr && was_left(mark, here)) {
    recount_records(thread);
    leave_tracer(thread);
  }
  return thread.inside != nullptr;
}

void forget_if_left(ThreadState& thread, Layer layer, const void* here) noexcept {
  if (was_left(&thread.open_frame[static_cast<int>(layer)]->alive, here)) {
    forget_open(thread, layer);
  }
}

// An unwinder works on the stack that it unwinds, so what lies deeper than this was left before.
extern "C" int tt_call_unwound(int, int actions, uint64_t, void*, void*) noexcept {
  ThreadState* const thread = t_thread;
  if (!is_cleaning_up(actions) || !thread || thread->generation != armed_generation()) {
    return kContinueUnwind;
  }
  const void* const end = here();
  int innermost = -1;
  for (int layer = 0; layer < kLayers; ++layer) {
    const OpenFrame* const frame = thread->open_frame[layer];
    if (is_open(frame, end) && (innermost < 0 || frame < thread->open_frame[innermost])) {
      innermost = layer;
    }
  }
  if (innermost >= 0) {
    forget_open(*thread, static_cast<Layer>(innermost));
    if (thread->inside != nullptr) {
      recount_records(*thread);
      leave_tracer(*thread);
    }
  }
  return kContinueUnwind;
}

void refuse_in_signal(ThreadState& thread) noexcept {
  ++thread.slot->dropped;
  count(format::Stat::NestedInSignal);
}

void unfold_query(OpenFrame& frame, const uint64_t* fields, int field_count, int outcome) noexcept {
  ThreadState& thread = *frame.thread;
  frame.poll->outcome = outcome;
  --thread.slot->queries;
  --thread.slot->folded;
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
