#include "interpose/python/host_samples.h"

#include "interpose/gpu/gpu_timeline.h"
#include "interpose/life/call_filters.h"
#include "interpose/life/facts.h"
#include "interpose/python/python_sampled.h"
#include "interpose/record/clock.h"
#include "interpose/record/growth.h"
#include "interpose/record/recorder.h"
#include "interpose/stacks/stacks.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

constexpr uint32_t kMostThreads = 16;
// In a long pause the next look may be later, by so much of what has passed; without a timeline,
// which any job has, by all of it.
constexpr uint64_t kPauseParts = 16;

struct Watched {
  format::Thread* slot;  // null: nobody
  uint32_t serial;       // the slot may be given to another thread
  uint64_t python_state;
  uint64_t python_thread;
  // The own thread's:
  uint64_t events;
  uint64_t quiet_since_ns;
  uint64_t next_ns;
};

constinit Watched g_watched[kMostThreads] = {};
constinit uint32_t g_watched_count = 0;
constinit CopiedMemory g_memory;
constinit bool g_refused = false;

bool is_in_call(const format::Thread& slot) {
  return load(slot.open[0].enter_ticks) != 0 || load(slot.open[1].enter_ticks) != 0;
}

bool has_timeline() {
  const uint32_t timeline = load(g_gpu_timeline);
  return timeline != kTimelineOff && timeline != kTimelineEnded;
}

// Whether nothing was recorded of it for some time, and it is time for a look.
bool is_due(Watched& watched, const format::Thread& slot, uint64_t now_ns) {
  const uint64_t events = load(slot.events);
  if (events != watched.events) {
    watched.events = events;
    watched.quiet_since_ns = watched.next_ns = now_ns;
    return false;
  }
  if (now_ns < watched.next_ns) {
    return false;
  }
  const uint64_t pause = (now_ns - watched.quiet_since_ns) / (has_timeline() ? kPauseParts : 1);
  watched.next_ns = now_ns + (pause > kSampleEveryNs ? pause : 0);
  return !is_in_call(slot);
}

// It has not ended, and runs Python.
bool is_there(const Watched& watched) {
  const format::Thread* const slot = load(watched.slot);
  return slot != nullptr && load(watched.python_state) != 0 &&
         load(slot->serial) == load(watched.serial);
}

void take(ThreadState& own, Watched& watched, uint64_t now_ns) {
  const format::Thread* const slot = load(watched.slot);
  const PythonThread python = {load(watched.python_state), load(watched.python_thread)};
  const uint32_t serial = load(watched.serial);
  if (!is_there(watched) || !is_due(watched, *slot, now_ns) || call_filters_added()) {
    return;
  }
  const uint64_t ticks = clock_ticks();
  const uint32_t stack = sampled_stack(own, python, g_memory);
  // It went on meanwhile: what was read may be half of this and half of that.
  if (stack == 0 || load(slot->events) != watched.events || is_in_call(*slot)) {
    return;
  }
  const uint64_t fields[] = {serial};
  write_moment(own, format::Moment::hostSample, ticks, format::kNoDevice, stack, fields, 1);
}

}  // namespace

void host_samples_start() noexcept {
  for (Watched& watched : g_watched) {
    watched = {};
  }
  g_watched_count = 0;
  g_refused = false;
}

void host_samples_watch(ThreadState& thread) noexcept {
  if (thread.watched == 0) {
    thread.watched = take_number(g_watched_count, kMostThreads);
    if (thread.watched == 0) {
      thread.watched = kMostThreads + 1;
      return;
    }
    Watched& watched = g_watched[thread.watched - 1];
    publish(watched.serial, thread.slot->serial);
    publish(watched.slot, thread.slot);
  }
  if (thread.watched > kMostThreads) {
    return;
  }
  Watched& watched = g_watched[thread.watched - 1];
  const PythonThread python = this_python_thread();
  const uint64_t before = load(watched.python_state);
  if (before != python.state) {
    publish(watched.python_thread, python.thread);
    publish(watched.python_state, python.state);
    if (before == 0) {
      wake_own_thread();
    }
  }
}

bool host_samples_wanted() noexcept {
  return !g_refused && (has_timeline() || load(g_watched_count) != 0);
}

uint64_t host_samples_take(ThreadState& own) noexcept {
  const uint64_t now_ns = nanoseconds(CLOCK_MONOTONIC);
  const uint64_t soonest_ns = now_ns + (has_timeline() ? kSampleEveryNs : kLookEveryNs);
  uint64_t again_ns = has_timeline() ? soonest_ns : UINT64_MAX;
  for (Watched& watched : g_watched) {
    take(own, watched, now_ns);
    if (is_there(watched)) {
      const uint64_t due_ns = watched.next_ns > soonest_ns ? watched.next_ns : soonest_ns;
      again_ns = due_ns < again_ns ? due_ns : again_ns;
    }
  }
  if (g_memory.is_refused()) {
    g_refused = true;
    write_fact(own, "host-samples", "none: process_vm_readv is refused");
  }
  return again_ns;
}

}  // namespace traintrace
