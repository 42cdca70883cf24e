// A call as the tracer sees it while it runs: is it the outermost of its layer, what is recorded of
// it, and the open call that a hang leaves behind in the thread's slot.
#pragma once

#include <cstdint>

#include "interpose/base/inside.h"
#include "interpose/record/clock.h"
#include "interpose/record/recorder.h"
#include "interpose/stacks/unwind_stack.h"

namespace traintrace {

// Lies on the stack of the wrapper.  While it is open, calls of the same layer made inside it (the
// runtime's to the driver, NCCL's to itself) are parts of it and not recorded.
struct OpenFrame {
  uint64_t alive;  // its own address, scrambled: tells whether this memory is still the frame
  ThreadState* thread;
  uint64_t generation;
  uint64_t ticks;
  uint64_t caller;  // return address of the wrapper
  uint32_t stack;
  format::CallId call;
  Layer layer;
  bool recorded;       // has an enter record
  bool folded;         // a query that only counts
  Polls::Entry* poll;  // of a query
};

// One bit for each call that TRAINTRACE_CALLS selects.
extern uint64_t g_selected_calls[(format::kCallCount + format::kMomentCount + 63) / 64];

inline bool selected(unsigned index) noexcept {
  return g_selected_calls[index / 64] >> (index % 64) & 1;
}

inline bool selected(format::CallId call) noexcept {
  return selected(static_cast<unsigned>(call));
}

void refuse_in_signal(ThreadState& thread) noexcept;

// Cold.  The layer's call is no longer shown as open if it was left for good.
void forget_if_left(ThreadState& thread, Layer layer, const void* here) noexcept;

// A frame that longjmp or a cancelled thread left behind lies deeper in the stack than the caller's
// one, was overwritten since, or is gone with its stack.
inline bool is_open(const OpenFrame* frame, const void* here) noexcept {
  return static_cast<const void*>(frame) > here && may_read_frame(frame) &&
         frame->alive == scrambled(frame);
}

// False: this call is part of another one, or interrupted the tracer itself; it is passed through.
// Else the thread is inside the tracer.
[[gnu::always_inline]] inline bool open_call(OpenFrame& frame, ThreadState* thread,
                                             format::CallId call, Layer layer,
                                             const void* caller) noexcept {
  const void* const end = here();
  if (!may_enter_tracer(*thread, end)) [[unlikely]] {
    refuse_in_signal(*thread);
    return false;
  }
  if (is_open(thread->open_frame[static_cast<int>(layer)], end)) {
    return false;
  }
  frame.alive = scrambled(&frame);
  enter_tracer(*thread, &frame.alive);
  constexpr Layer kOther[] = {Layer::kNccl, Layer::kCuda, Layer::kNccl};
  const Layer other = kOther[static_cast<int>(layer)];
  const OpenFrame* const outer = thread->open_frame[static_cast<int>(other)];
  if (outer != nullptr && !is_open(outer, end)) [[unlikely]] {
    forget_if_left(*thread, other, end);
  }
  frame.thread = thread;
  frame.generation = thread->generation;
  frame.ticks = clock_ticks();
  frame.caller = reinterpret_cast<uint64_t>(caller);
  frame.stack = 0;
  frame.call = call;
  frame.layer = layer;
  frame.recorded = false;
  frame.folded = false;
  frame.poll = nullptr;
  thread->open_frame[static_cast<int>(layer)] = &frame;
  return true;
}

// While it lives, the tracer itself calls the driver: what that calls in turn is no call of the
// job.
class OwnCall {
 public:
  explicit OwnCall(ThreadState& thread) noexcept
      : thread_(thread),
        inside_(thread.inside),
        outer_(thread.open_frame[static_cast<int>(Layer::kCuda)]) {
    frame_.alive = scrambled(&frame_);
    thread.open_frame[static_cast<int>(Layer::kCuda)] = &frame_;
    leave_tracer(thread);
  }
  ~OwnCall() {
    enter_tracer(thread_, inside_);
    frame_.alive = 0;
    thread_.open_frame[static_cast<int>(Layer::kCuda)] = outer_;
  }
  OwnCall(const OwnCall&) = delete;
  OwnCall& operator=(const OwnCall&) = delete;

 private:
  ThreadState& thread_;
  const uint64_t* inside_;
  const OpenFrame* outer_;
  OpenFrame frame_ = {};
};

// What cuBLAS waits for, it waits for in a call to CUDA.
inline bool is_shown(Layer layer) noexcept {
  return layer != Layer::kBlas;
}

inline void show_open(const OpenFrame& frame) noexcept {
  if (!is_shown(frame.layer)) {
    return;
  }
  format::Thread& slot = *frame.thread->slot;
  format::OpenCall& open = slot.open[static_cast<int>(frame.layer)];
  open.call = static_cast<uint16_t>(frame.call);
  open.stack = frame.stack;
  __atomic_store_n(&open.enter_ticks, frame.ticks, __ATOMIC_RELEASE);
  slot.last_call = static_cast<uint16_t>(frame.call);
  slot.last_call_ticks = frame.ticks;
  if (frame.stack) {
    slot.last_stack = frame.stack;
  }
}

// `is_query`: what is polled besides goes on being folded.
inline void record_enter(OpenFrame& frame, const uint64_t* fields, int count,
                         bool is_query) noexcept {
  ThreadState& thread = *frame.thread;
  if (selected(frame.call)) [[likely]] {
    frame.recorded =
        write_enter(thread, frame.call, frame.ticks, frame.caller, frame.stack, fields, count);
    if (!is_query) {
      thread.polls.end_row();
    }
  }
  show_open(frame);
}

// True: this query is like one that was recorded, and only counts.
inline bool fold_query(OpenFrame& frame, uint64_t object) noexcept {
  ThreadState& thread = *frame.thread;
  frame.poll = thread.polls.find(static_cast<uint16_t>(frame.call), object);
  if (frame.poll == nullptr) {
    return false;
  }
  frame.folded = true;
  frame.stack = frame.poll->stack;
  ++thread.slot->queries;
  ++thread.slot->folded;
  thread.slot->last_query_ticks = frame.ticks;
  show_open(frame);
  return true;
}

// After record_enter: the next equal query will be folded.
inline void remember_query(OpenFrame& frame, uint64_t object) noexcept {
  Polls& polls = frame.thread->polls;
  frame.poll = polls.add(static_cast<uint16_t>(frame.call), object, frame.stack);
  if (polls.begin_row()) {
    frame.thread->slot->queries = 0;
  }
}

// A query that was folded, but succeeded or failed where the one recorded last did not, becomes a
// record after all: what was waited for is over.
void unfold_query(OpenFrame& frame, const uint64_t* fields, int count, int outcome) noexcept;

// After the real call.  False: this is a forked child that returns from its parent's call.
inline bool reenter_tracer(const OpenFrame& frame) noexcept {
  if (frame.generation != armed_generation()) [[unlikely]] {
    return false;
  }
  enter_tracer(*frame.thread, &frame.alive);
  return true;
}

inline void close_call(OpenFrame& frame) noexcept {
  ThreadState& thread = *frame.thread;
  if (is_shown(frame.layer)) {
    __atomic_store_n(&thread.slot->open[static_cast<int>(frame.layer)].enter_ticks, 0,
                     __ATOMIC_RELEASE);
  }
  thread.open_frame[static_cast<int>(frame.layer)] = nullptr;
  frame.alive = 0;
  leave_tracer(thread);
}

}  // namespace traintrace
