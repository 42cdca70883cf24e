#include "interpose/life/own_thread.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "interpose/base/files.h"
#include "interpose/base/futex.h"
#include "interpose/base/own_files.h"
#include "interpose/calls/calls_past.h"
#include "interpose/calls/unloads.h"
#include "interpose/keeper/keeper_start.h"
#include "interpose/life/call_filters.h"
#include "interpose/life/facts.h"
#include "interpose/life/real_time.h"
#include "interpose/life/stderr_line.h"
#include "interpose/life/thread_count.h"
#include "interpose/payload/checks.h"
#include "interpose/python/host_samples.h"
#include "interpose/record/clock.h"
#include "interpose/record/growth.h"
#include "interpose/record/recorder.h"
#include "interpose/record/stats.h"
#include "interpose/tables/state.h"
#include "interpose/tables/tables.h"
#include "interpose/tables/torch_allocator.h"

namespace traintrace {
namespace {

constexpr uint64_t kTickNs = 1'000'000'000;
constexpr uint64_t kChecksEveryNs = 20'000'000;  // their cells are soon used up
constexpr uint64_t kLateNs = 2'000'000'000;
constexpr size_t kStackBytes = 256UL * 1024;
constexpr const char* kStat = "/proc/self/stat";

// Or until somebody asks for something.
void sleep_until(uint64_t monotonic_ns) {
  const uint32_t seen = load(g_own_thread_wake);
  const uint64_t now_ns = nanoseconds(CLOCK_MONOTONIC);
  if (!growth_is_pending() && now_ns < monotonic_ns) {
    futex_wait_or_sleep(&g_own_thread_wake, seen, monotonic_ns - now_ns);
  }
}

// Kept where this thread has a table of descriptors of its own: a filter of system calls may forbid
// to open it again.
constinit int g_stat = -1;

void read_stat(char* into, size_t size) {
  const ssize_t got = g_stat >= 0 ? pread(g_stat, into, size - 1, 0) : -1;
  if (got >= 0) {
    into[got] = '\0';
  } else {
    read_file(kStat, into, size);
  }
}

// The main thread has left by pthread_exit and all others are done: the process ends when this
// thread does, so it must not stay.
bool is_alone() {
  char stat[512];
  read_stat(stat, sizeof stat);
  const char* at = strrchr(stat, ')');
  if (!at || strncmp(at, ") Z", 3) != 0) {
    return false;
  }
  for (int field = 2; at && field < 20; ++field) {
    at = strchr(at + 1, ' ');
  }
  constexpr uint64_t kLeaderAndThis = 2;
  const uint64_t ours = kLeaderAndThis + (keeper_is_thread() ? 1 : 0) + (is_saying() ? 1 : 0);
  return at && parse_number(at + 1, nullptr) <= ours;
}

// Set while a thread renews the anchor: whoever exits may do so beside this one.
int g_renews_anchor = 0;

void say_alive(format::FileHeader* file) {
  renew_clock_anchor(file);
  __atomic_store_n(&file->last_alive_ticks, clock_ticks(), __ATOMIC_RELEASE);
}

// What has to be done more often than each second.  A look for samples that comes late is no loss.
void work_until(ThreadState* self, uint64_t due_ns) {
  for (uint64_t now_ns = 0; now_ns < due_ns; now_ns = nanoseconds(CLOCK_MONOTONIC)) {
    grow_as_asked();
    say_lines();
    const bool samples = self != nullptr && host_samples_wanted() && !call_filters_were_added();
    const uint64_t look_ns = samples ? host_samples_take(*self) : UINT64_MAX;
    const bool checks = self != nullptr && checks_are_on();
    if (checks) {
      checks_record(*self);
    }
    const uint64_t pause = checks ? kChecksEveryNs : kTickNs;
    sleep_until(std::min({due_ns, look_ns, nanoseconds(CLOCK_MONOTONIC) + pause}));
  }
}

// Looks again before each thing that opens files, so that little time is left between the look and
// the last of them.
void tick(format::FileHeader* file, ThreadState* self, CallsPast& calls_past) {
  say_alive(file);
  if (self) {
    state_tick(*self);
    checks_record(*self);
    calls_past.look(*self);
  }
  if (call_filters_added()) {
    return;
  }
  if (self) {
    torch_allocator_tick();
  }
  reap_threads();
  look_for_unloads();
  forget_refused_growth();
  look_after_keeper(file);
}

void tell_of_filters(ThreadState* self) {
  if (self) {
    write_fact(*self, "call-filters", "more since recording began");
  }
}

void* run(void* argument) {
  prctl(PR_SET_NAME, "traintrace");
  take_own_files();
  call_filters_watch();
  g_stat = has_own_files() ? open(kStat, O_RDONLY | O_CLOEXEC) : -1;
  // Before the job's call goes on, whose thread may be the last one to leave.
  const bool left_count = leave_thread_count();
  format::FileHeader* const file = reinterpret_cast<ArmInOwnThread>(argument)();
  if (file == nullptr || !left_count) {
    rejoin_thread_count();
    return nullptr;
  }
  leave_real_time();  // not before: the job's call waits for what it has done so far
  ThreadState* const self = t_thread;
  CallsPast calls_past;
  uint64_t due_ns = nanoseconds(CLOCK_MONOTONIC);
  bool told_of_filters = false;
  while (!is_alone()) {
    tick(file, self, calls_past);
    if (call_filters_were_added() && !told_of_filters) {
      told_of_filters = true;
      tell_of_filters(self);
    }
    due_ns += kTickNs;
    work_until(self, due_ns);
    const uint64_t now_ns = nanoseconds(CLOCK_MONOTONIC);
    if (now_ns - due_ns > kLateNs) {
      count(format::Stat::AliveLate);
      due_ns = now_ns;
    }
  }
  end_keeper_thread();
  own_thread_says_no_more();
  rejoin_thread_count();
  return nullptr;
}

bool start(size_t stack_bytes, ArmInOwnThread arm) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) {
    return false;
  }
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (stack_bytes) {
    pthread_attr_setstacksize(&attributes, stack_bytes);
  }
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, run, reinterpret_cast<void*>(arm));
  pthread_attr_destroy(&attributes);
  return error == 0;
}

}  // namespace

void renew_clock_anchor(format::FileHeader* file) noexcept {
  if (__atomic_exchange_n(&g_renews_anchor, 1, __ATOMIC_ACQUIRE) != 0) {
    return;
  }
  const uint32_t next = 1 - file->anchor_index;
  file->anchors[next] = clock_anchor(file->anchor_boottime_ns[1 + next]);
  __atomic_store_n(&file->anchor_index, next, __ATOMIC_RELEASE);
  __atomic_store_n(&g_renews_anchor, 0, __ATOMIC_RELEASE);
}

// A program with much static thread-local storage may need the default stack.
bool start_own_thread(ArmInOwnThread arm) noexcept {
  __atomic_store_n(&g_renews_anchor, 0, __ATOMIC_RELEASE);  // in a child it may have been set
  return start(kStackBytes, arm) || start(0, arm);
}

}  // namespace traintrace
