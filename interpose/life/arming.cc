#include "interpose/life/arming.h"

#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "interpose/base/futex.h"
#include "interpose/base/undisturbed.h"
#include "interpose/calls/call_names.h"
#include "interpose/calls/elf_next.h"
#include "interpose/calls/open_call.h"
#include "interpose/calls/resolve.h"
#include "interpose/gpu/device_processes.h"
#include "interpose/gpu/gpu_timeline.h"
#include "interpose/gpu/marks.h"
#include "interpose/keeper/keeper_start.h"
#include "interpose/keeper/storage.h"
#include "interpose/life/call_filters.h"
#include "interpose/life/facts.h"
#include "interpose/life/gpu_identities.h"
#include "interpose/life/identity.h"
#include "interpose/life/on_abort.h"
#include "interpose/life/own_thread.h"
#include "interpose/life/stderr_line.h"
#include "interpose/life/told.h"
#include "interpose/life/versions.h"
#include "interpose/payload/checks.h"
#include "interpose/payload/scalars.h"
#include "interpose/python/python_frames.h"
#include "interpose/record/clock.h"
#include "interpose/record/growth.h"
#include "interpose/record/map_memory.h"
#include "interpose/record/memory_region.h"
#include "interpose/record/recorder.h"
#include "interpose/record/sections.h"
#include "interpose/record/stats.h"
#include "interpose/stacks/loader_walk.h"
#include "interpose/stacks/modules.h"
#include "interpose/stacks/objects.h"
#include "interpose/stacks/stacks.h"
#include "interpose/tables/state.h"

namespace traintrace {

alignas(kLargestPage) constinit GuardPage g_guard = {};

namespace {

// What a call of the job waits at most, once in the life of its thread, for recording to begin.
// Beside others on a busy machine, arming takes longer than the milliseconds that it needs.
constexpr uint64_t kPatienceNs = 1'000'000'000;
// In all, while the own thread waits for no lock: then it lacks a processor, and calls that are not
// recorded would cost the verdict more than a job that starts this slowly notices.
constexpr uint64_t kPatienceInAllNs = 3'000'000'000;
// In a child that was forked while another thread held the loader's lock, it cannot end: so long it
// waits there while the own thread waits for a lock.
constexpr uint64_t kPatienceOfChildNs = 100'000'000;

// Of this process, or of the parent that it was forked from.
constinit uint64_t g_generation = 0;
constinit pid_t g_loaded_in = 0;
constinit pid_t g_process = 0;  // that recorded last, or g_loaded_in
constinit format::FileHeader* g_file = nullptr;
constinit size_t g_file_bytes = 0;
constinit bool g_hooks_in_place = false;
constinit bool g_page_is_wiped = false;
constinit Settings g_settings = {};  // for the own thread to begin with
constinit thread_local bool t_arming = false;
constinit thread_local pid_t t_waited_in = 0;  // a forked child may wait once more

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
  futex_wake(&g_guard.words.state);
}

// A handler of the job's for fork(), registered before this one, may have called already: that has
// armed the child anew, where the kernel wipes the page.
void disarm_child() {
  if (g_page_is_wiped) {
    return;
  }
  g_guard.words.armed = 0;
  g_guard.words.counts = 0;
  g_guard.words.own_thread = 0;
  set_arm_state(ArmState::kUnarmed);
}

void exited(int status, void*) {
  note_exit(format::kExit, status);
  if (armed_generation() == 0 && getpid() == g_process) {
    wait_until_said();  // why nothing is recorded
  }
}

// Where the kernel does not wipe the page, the handler of fork() does what it can.
void put_hooks_in_place() {
  g_page_is_wiped = madvise(&g_guard, sizeof g_guard, MADV_WIPEONFORK) == 0;
  if (!g_hooks_in_place) {
    g_hooks_in_place = true;
    pthread_atfork(nullptr, nullptr, disarm_child);
    let_forks_wait_for_walks();
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
  growth_drop();
  forget_keeper();
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
    const uint64_t bit = uint64_t{1} << (id % 64);
    g_selected_calls[id / 64] |= matches_any(patterns, call_name(id)) ? bit : 0;
  }
}

void start_clock(format::FileHeader* file) {
  file->clock = choose_clock();
  file->keep_flags |= find_boottime_offset() ? format::kMachineBoottime : 0U;
  file->first_anchor = clock_anchor(file->anchor_boottime_ns[0]);
  file->anchors[0] = file->first_anchor;
  file->anchor_boottime_ns[1] = file->anchor_boottime_ns[0];
  file->armed_ticks = clock_ticks();
  file->last_alive_ticks = file->armed_ticks;
}

// From the first call on that is recorded there is somebody who has the memory, even if this
// process is killed at once.  A forked child's call does not wait for that where the memory has a
// name: another keeper finishes what it finds.
bool may_be_kept_later(const MemoryRegion& region) {
  return !is_process_of_load() && region.header->memory_path[0] != '\0';
}

void have_it_kept(ThreadState& self, const MemoryRegion& region) {
  constexpr const char* kKeeping[] = {"", "process", "thread", "none"};
  const Keeping keeping = start_keeper(region.header, region.descriptor);
  write_fact(self, "keeper", kKeeping[static_cast<int>(keeping)]);
  growth_keeps_no_descriptor();
}

// Not by dlsym: a thread of the job's asks, too, which another one may wait for under the loader's
// lock.
void* look_for_python(const char* name) {
  return loader_can_be_asked() ? symbol_elsewhere(name) : nullptr;
}

// Everything that a trace needs, before the word that arms is stored.
bool fill(const Settings& settings, const MemoryRegion& region) {
  start_clock(region.header);
  growth_start(region.header, region.descriptor);
  const uint64_t generation = ++g_generation;
  if (!recorder_start(region.header, generation)) {
    return false;
  }
  g_stack_mode = settings.stacks;
  g_gpu_progress = settings.gpu_progress;
  set_python_lookup(look_for_python, keep_loaded);
  if (settings.stacks == Stacks::kPython || settings.stacks == Stacks::kAll) {
    find_python();  // here, where nobody is kept waiting if the loader is
  }
  state_start(region.header);
  versions_start();
  ThreadState* const self = claim_thread();
  if (!self) {
    return false;
  }
  write_facts(*self, settings, region);
  payload_start(*self, settings);
  on_abort_prepare(*self, settings);
  define_versions(*self);
  gpu_identities_start();
  device_processes_start();
  gpu_timeline_start(settings);
  stats_go_to(
      reinterpret_cast<uint64_t*>(at(region.header, section_of(region.header, format::kStats))));
  __atomic_store_n(&region.header->ready, 1, __ATOMIC_RELEASE);
  const bool later = may_be_kept_later(region);
  if (!later) {
    have_it_kept(*self, region);
  }
  __atomic_store_n(&g_guard.words.armed, generation, __ATOMIC_RELEASE);
  if (later) {
    set_arm_state(ArmState::kArmed);
    have_it_kept(*self, region);
  }
  return true;
}

void not_recording(const char* why) {
  ShortText line;
  line << "not recording: " << why;
  complain(line.c_str());
}

// Of a memory that nothing is recorded into no name stays.
void forget_memory(const MemoryRegion& region) {
  growth_keeps_no_descriptor();
  if (region.header && region.header->memory_path[0]) {
    unlink(region.header->memory_path);
  }
}

bool start_recording(MemoryRegion& region) {
  const Settings& settings = g_settings;
  forget_parent();
  select_calls(settings.calls);
  create_memory_region(settings, identify(), !is_process_of_load(), region);
  if (region.header) {
    g_file = region.header;
    g_file_bytes = region.bytes;
    region.why = "out of memory";
  }
  const bool filled = region.header && fill(settings, region);
  if (!filled) {
    not_recording(region.why);
    forget_memory(region);
  }
  return filled;
}

// In the own thread, all of whose signals are blocked.
format::FileHeader* arm_in_own_thread() noexcept {
  t_arming = true;
  __atomic_store_n(&g_guard.words.own_thread, static_cast<uint32_t>(gettid()), __ATOMIC_RELEASE);
  const bool moved = root_was_changed();  // before the job's first call goes on
  MemoryRegion region = {};
  own_thread_says();
  const bool armed = start_recording(region);
  if (armed) {
    telling_begins();
  } else {
    own_thread_says_no_more();
    wait_a_little_until_said();
  }
  set_arm_state(armed ? ArmState::kArmed : ArmState::kSteppedAside);
  t_arming = false;
  if (armed) {
    tell_about_settings(g_settings);
    tell_smaller_ring(g_settings, region);
    if (moved) {
      tell_changed_root(*region.header);
    }
    if (g_settings.log) {
      ShortText line;
      line << "recording to " << region.header->folder;
      say(line.c_str());
    }
    telling_ends();
    say_lines();
  }
  return armed ? region.header : nullptr;
}

bool may_record() {
  g_settings = read_settings();
  return !g_settings.disabled && !call_filters_were_added() && !getauxval(AT_SECURE) &&
         (!g_no_threads_in_children || is_process_of_load());
}

uint64_t left_of(__rlimit_resource resource, uint64_t used) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return UINT64_MAX;
  }
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

// Where little is allowed it is left to the job: null, or why nothing is recorded.
const char* why_not_here() {
  constexpr uint64_t kFewestFiles = 16;                  // of the own thread and the keeper
  constexpr uint64_t kPart = 4;                          // of what is left at most
  constexpr uint64_t kAddresses = uint64_t{1280} << 20;  // with the own thread's
  constexpr uint64_t kData = uint64_t{192} << 20;
  if (call_filters_since_load()) {
    return "the process has installed a filter of system calls (seccomp)";
  }
  if (left_of(RLIMIT_NOFILE, 0) < kFewestFiles) {
    return "a process may open fewer than 16 files here (RLIMIT_NOFILE)";
  }
  if (left_of(RLIMIT_MEMLOCK, 0) != UINT64_MAX && may_lock_too_little(kAddresses)) {
    return "the process locks all new memory (mlockall), and may lock little (RLIMIT_MEMLOCK)";
  }
  if (left_of(RLIMIT_AS, 0) == UINT64_MAX && left_of(RLIMIT_DATA, 0) == UINT64_MAX) {
    return nullptr;
  }
  const MemoryInUse used = memory_in_use();
  if (left_of(RLIMIT_AS, used.addresses) / kPart < kAddresses) {
    return "too few addresses are left to the process (RLIMIT_AS)";
  }
  return left_of(RLIMIT_DATA, used.data) / kPart < kData
             ? "too little memory is left to the process (RLIMIT_DATA)"
             : nullptr;
}

// In the thread that calls first, which may have a small stack.
void begin_arming() {
  if (!may_record()) {
    set_arm_state(ArmState::kSteppedAside);
    return;
  }
  if (const char* const why = why_not_here()) {
    not_recording(why);
    set_arm_state(ArmState::kSteppedAside);
    return;
  }
  put_hooks_in_place();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);  // the own thread inherits that
  // By it a sandbox answers a call in its place: blocked, it ends the process.
  sigdelset(&all, SIGSYS);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = start_own_thread(arm_in_own_thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) {
    not_recording("the system allows no more threads");
    set_arm_state(ArmState::kSteppedAside);
  }
}

// Whether the own thread is in the system's call that waits for a lock, or that cannot be found out
// (proc(5), /proc/pid/task/tid/syscall).  One that has no processor is not.
bool own_thread_waits_for_lock() {
  const uint32_t tid = __atomic_load_n(&g_guard.words.own_thread, __ATOMIC_ACQUIRE);
  if (tid == 0) {
    return false;
  }
  WordText path;
  path << "/proc/self/task/" << tid << "/syscall";
  WordText lock;
  lock << SYS_futex << " ";
  char call[32];
  const size_t length = read_file(path.c_str(), call, sizeof call);
  return length == 0 || __builtin_memcmp(call, lock.c_str(), lock.length()) == 0;
}

// Until it is over, or takes too long.
void wait_while_arming(uint64_t patience_ns) {
  constexpr auto kArming = static_cast<uint32_t>(ArmState::kArming);
  const uint64_t give_up_ns = nanoseconds(CLOCK_MONOTONIC) + patience_ns;
  for (uint64_t now_ns = 0; arm_state() == ArmState::kArming && now_ns < give_up_ns;) {
    now_ns = nanoseconds(CLOCK_MONOTONIC);
    futex_wait(&g_guard.words.state, kArming, now_ns < give_up_ns ? give_up_ns - now_ns : 0);
  }
}

// Where that takes too long this thread waits no more, and its calls are counted until it is armed.
bool wait_for_arming() {
  const pid_t here = getpid();
  if (t_waited_in != here) {
    t_waited_in = here;
    const bool is_child = here != g_loaded_in;
    const uint64_t patience_ns = is_child ? kPatienceOfChildNs : kPatienceNs;
    const uint64_t most_ns = is_child ? kPatienceNs : kPatienceInAllNs;
    for (uint64_t waited_ns = 0; arm_state() == ArmState::kArming && waited_ns < most_ns &&
                                 (waited_ns == 0 || !own_thread_waits_for_lock());
         waited_ns += patience_ns) {
      wait_while_arming(patience_ns);
    }
  }
  const bool arming = arm_state() == ArmState::kArming;  // before the look that counts
  const bool armed = armed_generation() != 0;
  if (!armed && arming) {
    count(format::Stat::BeforeArming);
  }
  return armed;
}

}  // namespace

bool arm() noexcept {
  const int saved_errno = errno;
  bool armed = false;
  auto expected = static_cast<uint32_t>(ArmState::kUnarmed);
  if (t_arming) {
    return false;
  }
  if (armed_generation() == 0 && arm_state() == ArmState::kUnarmed) {
    const Undisturbed undisturbed;  // what is begun here is ended
    if (__atomic_compare_exchange_n(&g_guard.words.state, &expected,
                                    static_cast<uint32_t>(ArmState::kArming), false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      begin_arming();
    }
  }
  if (arm_state() == ArmState::kArming) {
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
    checks_exit();
    state_exit();
    // Who lived for less than a second has no other that tells how fast the clock goes.
    renew_clock_anchor(g_file);
    g_file->exit_status = status;
    g_file->exit_ticks = clock_ticks();
    __atomic_store_n(&g_file->exit_kind, static_cast<uint32_t>(kind), __ATOMIC_RELEASE);
    wait_for_copy(g_file);
  }
}

}  // namespace traintrace
