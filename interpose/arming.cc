#include "interpose/arming.h"

#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "interpose/clock.h"
#include "interpose/elf_next.h"
#include "interpose/facts.h"
#include "interpose/gpu_timeline.h"
#include "interpose/marks.h"
#include "interpose/on_abort.h"
#include "interpose/open_call.h"
#include "interpose/own_thread.h"
#include "interpose/python_frames.h"
#include "interpose/recorder.h"
#include "interpose/resolve.h"
#include "interpose/sections.h"
#include "interpose/stacks.h"
#include "interpose/state.h"
#include "interpose/stats.h"
#include "interpose/versions.h"

namespace traintrace {

alignas(4096) constinit GuardPage g_guard = {};

namespace {

constexpr int kWaitSteps = 100;
constexpr long kWaitStepNs = 1'000'000;

// Of this process, or of the parent that it was forked from.
constinit uint64_t g_generation = 0;
constinit pid_t g_loaded_in = 0;
constinit pid_t g_process = 0;  // that recorded last, or g_loaded_in
constinit format::FileHeader* g_file = nullptr;
constinit size_t g_file_bytes = 0;
constinit bool g_hooks_in_place = false;
constinit bool g_complained = false;
constinit OwnThreadWork g_own_thread_work = {};
constinit char g_trace_path[kMaxPath] = {};
constinit thread_local bool t_arming = false;

// ThreadSanitizer ends a forked child that starts a thread, as recording does.
constinit bool g_no_threads_in_children = false;

[[gnu::constructor]] void remember_process() {
  g_loaded_in = g_process = getpid();
  g_no_threads_in_children = next_definition("__tsan_init") != nullptr;
}

ArmState arm_state() {
  return static_cast<ArmState>(__atomic_load_n(&g_guard.words.state, __ATOMIC_ACQUIRE));
}

void set_arm_state(ArmState state) {
  __atomic_store_n(&g_guard.words.state, static_cast<uint32_t>(state), __ATOMIC_RELEASE);
}

// One line, once, in this process and those that it forks.
void say(const char* what, const char* detail) {
  ShortText line;
  line << "traintrace: " << what << detail << "\n";
  if (write(STDERR_FILENO, line.c_str(), line.length()) < 0) {
    return;  // nobody listens
  }
}

void disarm_child() {
  g_guard.words.armed = 0;
  set_arm_state(ArmState::kUnarmed);
}

void exited(int status, void*) {
  note_exit(format::kExit, status);
}

// Where the kernel does not wipe the page, the handler of fork() does what it can.
void put_hooks_in_place() {
  madvise(&g_guard, sizeof g_guard, MADV_WIPEONFORK);
  if (!g_hooks_in_place) {
    g_hooks_in_place = true;
    pthread_atfork(nullptr, nullptr, disarm_child);
    on_exit(exited, nullptr);
  }
}

// A forked child lets go of what it inherited; the parent's file stays as it is.
void forget_parent() {
  const pid_t here = getpid();
  if (here == g_process) {
    return;
  }
  g_process = here;
  state_reset_after_fork();
  t_thread = nullptr;
  if (g_file) {
    munmap(g_file, g_file_bytes);
    g_file = nullptr;
  }
}

void select_calls(const char* patterns) {
  for (uint64_t& word : g_selected_calls) {
    word = 0;
  }
  for (size_t id = 0; id < format::kCallCount + format::kMomentCount; ++id) {
    const char* const name = id < format::kCallCount
                                 ? format::kCalls[id].name
                                 : format::kMoments[id - format::kCallCount].name;
    const uint64_t bit = uint64_t{1} << (id % 64);
    g_selected_calls[id / 64] |= matches_any(patterns, name) ? bit : 0;
  }
}

void start_clock(format::FileHeader* file) {
  file->clock = choose_clock();
  file->first_anchor = clock_anchor();
  file->anchors[0] = file->first_anchor;
  file->armed_ticks = clock_ticks();
  file->last_alive_ticks = file->armed_ticks;
}

void start_thread(ThreadState& self, const Settings& settings, const TraceFile& file) {
  Text path(g_trace_path, sizeof g_trace_path);
  path << file.path.c_str();
  g_own_thread_work = {file.header, file.elsewhere ? settings.dir : nullptr, g_trace_path,
                       settings.full};
  if (!start_own_thread(g_own_thread_work)) {
    write_fact(self, "own-thread", "none: the system allows no more threads");
  }
}

// Everything that a trace needs, before the word that arms is stored.
bool fill(const Settings& settings, const TraceFile& file) {
  start_clock(file.header);
  const uint64_t generation = ++g_generation;
  if (!recorder_start(file.header, generation)) {
    return false;
  }
  g_stack_mode = settings.stacks;
  g_gpu_progress = settings.gpu_progress;
  set_python_lookup(look_up);
  state_start(file.header);
  versions_start();
  ThreadState* const self = claim_thread();
  if (!self) {
    return false;
  }
  write_facts(*self, settings, file);
  on_abort_prepare(*self, settings);
  define_versions(*self);
  gpu_timeline_start(settings);
  stats_go_to(
      reinterpret_cast<uint64_t*>(at(file.header, section_of(file.header, format::kStats))));
  __atomic_store_n(&file.header->ready, 1, __ATOMIC_RELEASE);
  start_thread(*self, settings, file);
  put_hooks_in_place();
  __atomic_store_n(&g_guard.words.armed, generation, __ATOMIC_RELEASE);
  take_early_stats();
  return true;
}

bool start_recording() {
  const Settings settings = read_settings();
  if (settings.disabled || getauxval(AT_SECURE) ||
      (g_no_threads_in_children && !is_process_of_load())) {
    return false;
  }
  forget_parent();
  select_calls(settings.calls);
  TraceFile file = {};
  create_trace_file(settings, identify(), file);
  if (file.header) {
    g_file = file.header;
    g_file_bytes = file.bytes;
    file.why = "out of memory";
  }
  if (!file.header || !fill(settings, file)) {
    if (!g_complained) {
      say("not recording: ", file.why);
    }
    g_complained = true;
    return false;
  }
  if (settings.log) {
    say("recording to ", file.path.c_str());
  }
  return true;
}

bool wait_for_arming() {
  for (int i = 0; i < kWaitSteps && arm_state() == ArmState::kArming; ++i) {
    const timespec step = {0, kWaitStepNs};
    nanosleep(&step, nullptr);
  }
  const bool arming = arm_state() == ArmState::kArming;  // before the look that counts
  const bool armed = armed_generation() != 0;
  if (!armed && arming) {
    count(format::Stat::BeforeArming);
  }
  return armed;
}

// No signal handler of the job runs meanwhile, and the own thread inherits that.
bool arm_with_signals_blocked() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  t_arming = true;
  const bool armed = start_recording();
  set_arm_state(armed ? ArmState::kArmed : ArmState::kSteppedAside);
  t_arming = false;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return armed;
}

}  // namespace

bool arm() noexcept {
  const int saved_errno = errno;
  bool armed = false;
  auto expected = static_cast<uint32_t>(ArmState::kUnarmed);
  if (__atomic_compare_exchange_n(&g_guard.words.state, &expected,
                                  static_cast<uint32_t>(ArmState::kArming), false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    armed = arm_with_signals_blocked();
  } else if (expected == static_cast<uint32_t>(ArmState::kArming) && !t_arming) {
    armed = wait_for_arming();
  } else {
    armed = armed_generation() != 0;
  }
  errno = saved_errno;
  return armed;
}

bool is_process_of_load() noexcept {
  return getpid() == g_loaded_in;
}

// A child of vfork shares this memory and ends by _exit if its exec fails: that is no exit of ours.
void note_exit(int kind, int status) noexcept {
  if (armed_generation() && g_file->pid == getpid()) {
    state_exit();
    // Who lived for less than a second has no other that tells how fast the clock goes.
    renew_clock_anchor(g_file);
    g_file->exit_status = status;
    g_file->exit_ticks = clock_ticks();
    __atomic_store_n(&g_file->exit_kind, static_cast<uint32_t>(kind), __ATOMIC_RELEASE);
  }
}

}  // namespace traintrace
