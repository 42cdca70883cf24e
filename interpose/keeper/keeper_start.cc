// The keeper must be nobody's child that the job could see: no SIGCHLD, nothing for its wait().  So
// it is a grandchild, whose parent has no exit signal and ends at once; both share the job's memory
// until exec (no page tables are copied), with all signals blocked, and do system calls only.
//
// A process that is init, or takes in the orphans of its descendants, would get it back as a child:
// there a thread copies.
#include "interpose/keeper/keeper_start.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "interpose/base/files.h"
#include "interpose/base/futex.h"
#include "interpose/base/own_files.h"
#include "interpose/keeper/detached_program.h"
#include "interpose/keeper/keeper.h"
#include "interpose/keeper/keeper_claim.h"
#include "interpose/life/call_filters.h"
#include "interpose/life/identity.h"
#include "interpose/life/stderr_line.h"
#include "interpose/life/thread_count.h"
#include "interpose/life/told.h"
#include "interpose/record/clock.h"
#include "interpose/stacks/loader_walk.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

constexpr uint64_t kPatienceNs = 250'000'000;  // without a sign that it gets on
constexpr uint64_t kStartNs = 2'000'000'000;   // until it has started, on a busy machine
constexpr uint64_t kNeverNs = 5'000'000'000;   // after that it is not waited for any more
constexpr uint64_t kLongestNs = 5'000'000'000;
constexpr uint64_t kSliceNs = 20'000'000;
constexpr size_t kStackBytes = 256UL * 1024;

constinit char g_loader[kMaxPath] = {};
constinit char g_library[kMaxPath] = {};
constinit bool g_programs_found = false;
constinit Keeping g_keeping = Keeping::kNotYet;
constinit uint64_t g_started_ns = 0;  // CLOCK_MONOTONIC
constinit uint32_t g_thread_must_end = 0;
constinit bool g_creator_has_own_files = false;

bool takes_in_orphans() {
  int is_subreaper = 0;
  return getpid() == 1 || prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper) != 0 || is_subreaper;
}

// The loader of this program is the one that fits this library.
int note_loader(dl_phdr_info* info, size_t, void*) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type == PT_INTERP) {
      Text path(g_loader, sizeof g_loader);
      path << reinterpret_cast<const char*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
      return 1;
    }
  }
  return 0;
}

// What the parent of a forked child has found is still there, or was replaced or hidden.
bool find_programs() {
  if (g_programs_found) {
    return access(g_library, R_OK) == 0;
  }
  Dl_info self;
  if (!dladdr(reinterpret_cast<const void*>(&find_programs), &self)) {
    return false;
  }
  Text library(g_library, sizeof g_library);
  if (self.dli_fname[0] != '/') {
    char folder[kMaxPath];
    if (!getcwd(folder, sizeof folder)) {
      return false;
    }
    library << folder << "/";
  }
  library << self.dli_fname;
  walk_loader(note_loader, nullptr);
  g_programs_found = library.whole() && g_loader[0] == '/' && access(g_library, R_OK) == 0;
  return g_programs_found;
}

void* copy_in_thread(void* argument) {
  prctl(PR_SET_NAME, "traintrace-keep");
  share_own_files(g_creator_has_own_files);
  if (leave_thread_count()) {
    keep_copying_in_thread(static_cast<format::FileHeader*>(argument), g_thread_must_end);
    rejoin_thread_count();
  }
  return nullptr;
}

Keeping start_thread(format::FileHeader* memory) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) {
    return Keeping::kNobody;
  }
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  const int32_t self = getpid();
  if (!claim_keeping(*memory, self)) {
    pthread_attr_destroy(&attributes);
    return Keeping::kProcess;  // it began meanwhile
  }
  if (memory->collect[0]) {
    publish(memory->collect_problem, ECHILD);  // packing needs a process that may wait
  }
  publish(memory->keeper_descriptor, -1);
  publish(g_thread_must_end, 0U);
  g_creator_has_own_files = has_own_files();
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, copy_in_thread, memory);
  pthread_attr_destroy(&attributes);
  if (error != 0) {
    publish(memory->keeper_pid, 0);
    return Keeping::kNobody;
  }
  return Keeping::kThread;
}

class Patience {
 public:
  explicit Patience(const format::FileHeader& memory)
      : memory_(memory), began_ns_(nanoseconds(CLOCK_MONOTONIC)), moved_ns_(began_ns_) {}

  bool is_over() {
    const uint64_t now_ns = nanoseconds(CLOCK_MONOTONIC);
    const uint32_t steps = load(memory_.keeper_steps);
    if (steps != steps_) {
      steps_ = steps;
      moved_ns_ = now_ns;
    }
    const bool started = load(memory_.keeper_pid) != 0;
    return now_ns - began_ns_ > kLongestNs ||
           now_ns - moved_ns_ > (started ? kPatienceNs : kStartNs);
  }

 private:
  const format::FileHeader& memory_;
  uint64_t began_ns_;
  uint64_t moved_ns_;
  uint32_t steps_ = 0;
};

}  // namespace

Keeping start_keeper(format::FileHeader* memory, int descriptor) noexcept {
  g_started_ns = nanoseconds(CLOCK_MONOTONIC);
  if (!takes_in_orphans() && find_programs()) {
    char* arguments[] = {g_loader, g_library, nullptr};
    if (start_detached({g_loader, arguments, descriptor})) {
      return g_keeping = Keeping::kProcess;
    }
  }
  if (memory->collect[0]) {
    tell_refused(format::Setting::Collect, "nothing is collected",
                 "no process can be started for it here");
  }
  return g_keeping = start_thread(memory);
}

namespace {

// A memory without a name ends with the process and its keeper.
void complain_if_nothing_is_kept(const format::FileHeader& memory) {
  if (load(memory.no_place) != 0 && !memory.memory_path[0]) {
    ShortText line;
    line << "no trace is kept: there is no place for it in " << memory.folder
         << ", /tmp or /var/tmp";
    complain(line.c_str());
  }
}

// While the keeper gets on it is waited for: what is in the folder when the process has ended
// should be all of it.  A disk that stands still, or a keeper that does, costs a quarter of a
// second.
void wait_for_rounds(format::FileHeader* memory) {
  Patience patience(*memory);
  // A round that is under way may have missed the newest: two are asked for.
  for (int rounds = 0; rounds < 2; ++rounds) {
    const uint32_t made = load(memory->copies_made);
    fetch_add(memory->keeper_wake, 1U);
    futex_wake(&memory->keeper_wake);
    while (load(memory->copies_made) == made) {
      const bool nobody = (g_keeping == Keeping::kNobody || call_filters_were_added()) &&
                          load(memory->keeper_pid) == 0;
      if (nobody || load(memory->no_place) != 0 || patience.is_over()) {
        return;
      }
      futex_wait(&memory->copies_made, made, kSliceNs);
    }
  }
}

}  // namespace

void wait_for_copy(format::FileHeader* memory) noexcept {
  wait_for_rounds(memory);
  tell_other_place(*memory);
  tell_not_collected(*memory);
  complain_if_nothing_is_kept(*memory);
  wait_until_said();
}

void look_after_keeper(format::FileHeader* memory) noexcept {
  tell_other_place(*memory);
  tell_not_collected(*memory);
  complain_if_nothing_is_kept(*memory);
  const bool may_still_begin =
      load(memory->keeper_pid) == 0 && nanoseconds(CLOCK_MONOTONIC) - g_started_ns < kNeverNs;
  if (g_keeping != Keeping::kThread && !may_still_begin && !has_living_keeper(*memory)) {
    g_keeping = start_thread(memory);
  }
}

bool keeper_is_thread() noexcept {
  return g_keeping == Keeping::kThread;
}

void end_keeper_thread() noexcept {
  publish(g_thread_must_end, 1U);
}

void forget_keeper() noexcept {
  forget_detached();
  g_keeping = Keeping::kNotYet;
}

}  // namespace traintrace
