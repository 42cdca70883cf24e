#include "interpose/own_thread.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "interpose/calls_past.h"
#include "interpose/clock.h"
#include "interpose/facts.h"
#include "interpose/host_samples.h"
#include "interpose/recorder.h"
#include "interpose/segments.h"
#include "interpose/state.h"
#include "interpose/stats.h"
#include "interpose/torch_allocator.h"
#include "interpose/trace_file.h"

namespace traintrace {
namespace {

constexpr uint64_t kTickNs = 1'000'000'000;
constexpr uint64_t kLateNs = 2'000'000'000;
constexpr size_t kStackBytes = 256UL * 1024;

void sleep_until(uint64_t monotonic_ns) {
  const timespec time = {static_cast<time_t>(monotonic_ns / 1'000'000'000),
                         static_cast<long>(monotonic_ns % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
  }
}

// The main thread has left by pthread_exit and all others are done: the process ends when this
// thread does, so it must not stay.
bool is_alone() {
  char stat[512];
  read_file("/proc/self/stat", stat, sizeof stat);
  const char* at = strrchr(stat, ')');
  if (!at || strncmp(at, ") Z", 3) != 0) {
    return false;
  }
  for (int field = 2; at && field < 20; ++field) {
    at = strchr(at + 1, ' ');
  }
  constexpr uint64_t kLeaderAndThis = 2;
  return at && parse_number(at + 1, nullptr) <= kLeaderAndThis;
}

// Set while a thread renews the anchor: whoever exits may do so beside this one.
int g_renews_anchor = 0;

void say_alive(format::FileHeader* file) {
  renew_clock_anchor(file);
  __atomic_store_n(&file->last_alive_ticks, clock_ticks(), __ATOMIC_RELEASE);
}

// 64 MiB fill up in some 100 ms where all cores do nothing else.
constexpr uint64_t kDrainEveryNs = 5'000'000;

// What has to be done more often than each second.  A look for samples that comes late is no loss.
void work_until(Segments& segments, ThreadState* self, uint64_t due_ns) {
  uint64_t drained_ns = 0;
  for (uint64_t now_ns = 0; now_ns < due_ns; now_ns = nanoseconds(CLOCK_MONOTONIC)) {
    if (segments.is_started() && now_ns - drained_ns >= kDrainEveryNs - kSampleEveryNs / 2) {
      segments.drain();
      drained_ns = now_ns;
    }
    const bool samples = self != nullptr && host_samples_wanted();
    if (samples) {
      host_samples_take(*self);
    }
    const uint64_t pause = samples                 ? kSampleEveryNs
                           : segments.is_started() ? kDrainEveryNs
                                                   : kTickNs;
    sleep_until(std::min(due_ns, nanoseconds(CLOCK_MONOTONIC) + pause));
  }
}

void* run(void* argument) {
  const OwnThreadWork& work = *static_cast<const OwnThreadWork*>(argument);
  prctl(PR_SET_NAME, "traintrace");
  uint64_t due_ns = nanoseconds(CLOCK_MONOTONIC);
  ThreadState* const self = claim_thread();
  if (work.pointer_dir) {
    write_pointer_file(work.pointer_dir, identify(), work.trace_path);
  }
  CallsPast calls_past;
  Segments segments;
  if (work.full && !segments.start(work.trace_path, work.file) && self) {
    write_fact(*self, "segments", "none: no memory");
  }
  while (!is_alone()) {
    say_alive(work.file);
    if (self) {
      state_tick(*self);
      calls_past.look(*self);
      torch_allocator_tick();
    }
    reap_threads();
    due_ns += kTickNs;
    work_until(segments, self, due_ns);
    const uint64_t now_ns = nanoseconds(CLOCK_MONOTONIC);
    if (now_ns - due_ns > kLateNs) {
      count(format::Stat::AliveLate);
      due_ns = now_ns;
    }
  }
  return nullptr;
}

bool start(size_t stack_bytes, const OwnThreadWork& work) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) {
    return false;
  }
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (stack_bytes) {
    pthread_attr_setstacksize(&attributes, stack_bytes);
  }
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, run, const_cast<OwnThreadWork*>(&work));
  pthread_attr_destroy(&attributes);
  return error == 0;
}

}  // namespace

void renew_clock_anchor(format::FileHeader* file) noexcept {
  if (__atomic_exchange_n(&g_renews_anchor, 1, __ATOMIC_ACQUIRE) != 0) {
    return;
  }
  const uint32_t next = 1 - file->anchor_index;
  file->anchors[next] = clock_anchor();
  __atomic_store_n(&file->anchor_index, next, __ATOMIC_RELEASE);
  __atomic_store_n(&g_renews_anchor, 0, __ATOMIC_RELEASE);
}

// A program with much static thread-local storage may need the default stack.
bool start_own_thread(const OwnThreadWork& work) noexcept {
  __atomic_store_n(&g_renews_anchor, 0, __ATOMIC_RELEASE);  // in a child it may have been set
  return start(kStackBytes, work) || start(0, work);
}

}  // namespace traintrace
