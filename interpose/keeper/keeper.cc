#include "interpose/keeper/keeper.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "interpose/base/futex.h"
#include "interpose/keeper/collecting.h"
#include "interpose/keeper/copy_out.h"
#include "interpose/keeper/keeper_claim.h"
#include "interpose/keeper/left_behind.h"
#include "interpose/keeper/wait_status.h"
#include "interpose/life/call_filters.h"
#include "interpose/life/identity.h"
#include "interpose/life/real_time.h"
#include "interpose/record/clock.h"
#include "interpose/record/segments.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

constexpr uint64_t kEveryNs = 1'000'000'000;
// 64 MiB fill up in some 100 ms where all cores do nothing else.
constexpr uint64_t kDrainEveryNs = 5'000'000;

// For the thread that waits for the end: it may be late, and outlive whoever started it.
struct Watched {
  format::FileHeader* memory;
  int process;   // a pidfd, -1: there is none
  bool is_gone;  // before it was looked for
};

constinit Watched g_watched = {nullptr, -1, false};

// The process whose memory this is.  The kernel has no such descriptors before 5.3.  What says that
// there is no such process is right also where /proc is of another PID namespace, and has one.
Watched watch(format::FileHeader* memory) {
  if (memory->pid <= 0) {
    return {memory, -1, true};  // a filter of the job's hid it: whose end to wait for is not known
  }
  const auto process = static_cast<int>(syscall(SYS_pidfd_open, memory->pid, 0));
  if (process < 0) {
    return {memory, -1, errno == ESRCH};
  }
  const uint64_t started = start_time_of(memory->pid);
  if (started != 0 && started != memory->start_time) {
    close(process);
    return {memory, -1, true};
  }
  return {memory, process, false};
}

bool is_over(const Watched& watched) {
  if (watched.is_gone) {
    return true;
  }
  if (watched.process < 0) {
    return !is_running(watched.memory->pid, watched.memory->start_time);
  }
  pollfd end = {watched.process, POLLIN, 0};
  const int ended = poll(&end, 1, 0);
  if (ended >= 0 || errno == EINTR) {
    return ended > 0;
  }
  // The job's filter of system calls, which the keeper has inherited, forbids to ask so.
  return !is_running(watched.memory->pid, watched.memory->start_time);
}

// So that the end is seen at once, and not at the next round.
void* wake_at_end(void*) {
  pollfd end = {g_watched.process, POLLIN, 0};
  while (poll(&end, 1, -1) <= 0) {
    if (errno != EINTR) {
      return nullptr;  // a filter of the job's forbids it: the rounds see the end, later
    }
  }
  __atomic_fetch_add(&g_watched.memory->keeper_wake, 1, __ATOMIC_RELEASE);
  futex_wake(&g_watched.memory->keeper_wake);
  return nullptr;
}

void watch_end() {
  pthread_attr_t attributes;
  pthread_t thread;
  if (g_watched.process < 0 || pthread_attr_init(&attributes) != 0) {
    return;
  }
  pthread_attr_setstacksize(&attributes, 64UL * 1024);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_create(&thread, &attributes, wake_at_end, nullptr);
  pthread_attr_destroy(&attributes);
}

void note_end(format::FileHeader& memory, int process) {
  if (memory.gone_how != format::kNotSeenGone) {
    return;
  }
  int status = -1;
  const bool told =
      zombie_status_of(memory.pid, memory.start_time, status) || wait_status_of(process, status);
  memory.gone_boottime_ns = boottime_ns();
  memory.gone_realtime_ns = nanoseconds(CLOCK_REALTIME);
  memory.gone_status = told ? status : -1;
  __atomic_store_n(&memory.gone_how, told ? format::kSeenGoneStatus : format::kSeenGone,
                   __ATOMIC_RELEASE);
}

// Both the file in memory and the descriptor go, so nothing is left of it.
void remove_memory(const format::FileHeader& memory) {
  if (memory.memory_path[0]) {
    unlink(memory.memory_path);
  }
}

// One round: what was recorded since is copied; whoever waits for that is woken.
void copy_now(CopyOut& copy, format::FileHeader& memory) {
  memory.keeper_alive_boottime_ns = boottime_ns();
  if (copy.copy_changes()) {
    // Of a thread's last word nothing more is to be waited for.
    if (copy.had_last_word()) {
      remove_memory(memory);
    }
    __atomic_fetch_add(&memory.copies_made, 1, __ATOMIC_RELEASE);
    futex_wake(&memory.copies_made);
  }
}

class Rounds {
 public:
  Rounds(format::FileHeader* memory, CopyOut& copy) : memory_(*memory), copy_(copy) {}

  // Copies and packs until `over`, or until it would have to spin.
  template <class Over>
  void until(Over over) {
    bool can_wait = true;
    while (can_wait && !over()) {
      const uint32_t seen = load(memory_.keeper_wake);
      const bool asked = seen != answered_;
      pack();
      const uint64_t now_ns = boottime_ns();
      if (asked || now_ns >= due_ns_) {
        answered_ = seen;
        copy_now(copy_, memory_);
        due_ns_ = boottime_ns() + kEveryNs;
        continue;
      }
      // Until something is asked for, or for so long.
      can_wait = futex_wait_or_sleep(
          &memory_.keeper_wake, seen,
          std::min(due_ns_ - now_ns, segments_.is_started() ? kDrainEveryNs : kEveryNs));
    }
  }

  // TRAINTRACE_MODE=full.  The file of segments lies beside the copy.
  void pack() {
    if ((memory_.keep_flags & format::kKeepAll) == 0 || !copy_.path()[0]) {
      return;
    }
    if (!segments_.is_started() && !segments_tried_) {
      segments_tried_ = true;
      segments_.start(copy_.path(), &memory_);
    }
    if (segments_.is_started()) {
      segments_.drain();
    }
  }

 private:
  format::FileHeader& memory_;
  CopyOut& copy_;
  Segments segments_;
  bool segments_tried_ = false;
  uint32_t answered_ = 0;
  uint64_t due_ns_ = 0;
};

void be_small_and_deaf() {
  prctl(PR_SET_NAME, "traintrace-keep");
  constexpr int kNotForUs[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGPIPE, SIGXFSZ,
                               SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU, SIGALRM};
  for (const int signal_number : kNotForUs) {
    signal(signal_number, SIG_IGN);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  leave_real_time();
  if (chdir("/") != 0) {
    return;  // then it keeps the job's folder busy, no more
  }
}

// One that starts late, on a busy machine, finds that a thread of the process copies: it waits
// until that has ended with its process.
void become_keeper(format::FileHeader& memory) {
  const int32_t self = getpid();
  while (!claim_keeping(memory, self)) {
    constexpr timespec kPause = {1, 0};
    nanosleep(&kPause, nullptr);
  }
  publish(memory.keeper_start_time, start_time_of(self));
  publish(memory.keeper_descriptor, kKeeperDescriptor);
}

}  // namespace

void keep_copying_in_thread(format::FileHeader* memory, const uint32_t& must_end) noexcept {
  CopyOut copy;
  if (copy.start(memory, -1, CopyOut::LastWord::kAtExit)) {
    Rounds rounds(memory, copy);
    rounds.until([&] { return load(must_end) != 0 || call_filters_added(); });
    if (call_filters_were_added()) {
      // Nobody copies any more; memory that has a name waits for the next keeper.
      publish(memory->keeper_pid, 0);
      return;
    }
    rounds.pack();
    copy_now(copy, *memory);
  }
}

void keep_copying(format::FileHeader* memory) noexcept {
  CopyOut copy;
  if (!copy.start(memory, kKeeperDescriptor, CopyOut::LastWord::kWhenGone)) {
    return;
  }
  Rounds rounds(memory, copy);
  g_watched = watch(memory);
  watch_end();
  Collecting collecting(memory);
  rounds.until([&] {
    collecting.look();
    return is_over(g_watched);
  });
  if (is_over(g_watched)) {
    note_end(*memory, g_watched.process);
  }
  rounds.pack();
  const bool finished = copy.finish();
  collecting.finish(finished ? copy.path() : "");
  if (finished && memory->collect[0]) {
    copy.complete();
  }
  if (finished || copy.was_removed()) {
    remove_memory(*memory);
  }
}

format::FileHeader* map_trace_memory(int descriptor) noexcept {
  format::FileHeader header;
  struct stat status = {};
  if (fstat(descriptor, &status) != 0 || status.st_size < format::kHeaderBytes ||
      pread(descriptor, &header, sizeof header, 0) != sizeof header ||
      memcmp(header.magic, format::kMagic, sizeof header.magic) != 0 ||
      header.version != format::kVersion) {
    return nullptr;
  }
  void* const memory = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<format::FileHeader*>(memory);
}

}  // namespace traintrace

extern "C" [[noreturn]] void tt_keeper_main(void*) {
  using namespace traintrace;
  be_small_and_deaf();
  format::FileHeader* const memory = map_trace_memory(kKeeperDescriptor);
  if (memory) {
    choose_clock();
    if ((memory->keep_flags & format::kMachineBoottime) != 0) {
      find_boottime_offset();
    }
    become_keeper(*memory);
    keep_copying(memory);
    finish_left_behind();
  }
  _exit(0);
}
