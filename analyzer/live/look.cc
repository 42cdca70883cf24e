#include "analyzer/live/look.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "analyzer/live/stack_snapshot.h"
#include "analyzer/live/waiting.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

std::vector<FrameNow> described(const LiveModules& modules, const std::vector<LiveFrame>& stack) {
  std::vector<FrameNow> frames;
  for (const LiveFrame& at : stack) {
    for (const NativeFrame& frame : modules.frames_at(at.address, !frames.empty())) {
      frames.push_back(
          {frame.function, frame.file, frame.line, frame.module, false, frame.inlined});
    }
  }
  return frames;
}

// Who has called vfork sleeps like one that waits for a device, but can be killed (TASK_KILLABLE in
// wait_for_vfork_done, kernel/fork.c).
std::string deep_sleep_text(const ThreadNow& thread, int pid) {
  if (thread.waiting == Waiting::kChild) {
    return fmt::format(
        "thread {} of process {} waits in vfork for a child that has not started its program yet; "
        "both can be killed",
        thread.tid, pid);
  }
  return fmt::format(
      "thread {} of process {} is in uninterruptible sleep: it waits for a device or a file system "
      "and cannot be stopped or killed before that answers",
      thread.tid, pid);
}

// Of the vendors' function that the thread is in, as the job called it.
std::string arguments_of(const LiveModules& modules, const std::vector<LiveFrame>& stack,
                         const ThreadNow& now) {
  if (now.waiting != Waiting::kNccl && now.waiting != Waiting::kCuda) {
    return "";
  }
  const auto call =
      std::find_if(now.native.rbegin(), now.native.rend(), [&](const FrameNow& frame) {
        return frame.function == now.waiting_on || frame.function == "p" + now.waiting_on;
      });
  if (call == now.native.rend() || call == now.native.rbegin()) {
    return "";
  }
  // `stack` has no frames of inlined functions.
  const auto caller = static_cast<size_t>(
      std::count_if(call, now.native.rend(), [](const FrameNow& frame) { return !frame.inlined; }));
  if (caller >= stack.size()) {
    return "";
  }
  const std::string text = modules.arguments(stack[caller], now.waiting_on);
  return text.empty() ? "" : "(" + text + ")";
}

bool is_same_frame(const FrameNow& one, const FrameNow& other) {
  return one.function == other.function && one.file == other.file && one.line == other.line;
}

bool same_frames(const std::vector<FrameNow>& a, const std::vector<FrameNow>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), is_same_frame);
}

// One process with a thousand threads of a hundred frames, and the symbols of a dozen large
// libraries, stays far below.
constexpr size_t kMostThreads = 2048;
constexpr Budget::Limits kBudgetOfOne = {
    .bytes = 256 << 20, .items = 1 << 18, .time = std::chrono::seconds(2)};

int yama_scope() {
  int scope = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope;
}

}  // namespace

Watcher::Watcher(ProcProcess process)
    : process_(std::move(process)),
      modules_(process_),
      python_(PythonProcess::find(process_, modules_)) {}

ThreadNow Watcher::thread_now(int tid, const LookOptions& options,
                              const std::vector<PythonThread>& python, Look& into, Budget& budget) {
  ThreadNow now;
  now.tid = tid;
  // Before it is stopped: from a stop it comes back running, and only then waits again.
  const std::optional<ProcThread> thread = read_thread(process_.pid, tid);
  std::optional<StackSnapshot> snapshot;
  if (options.stop) {
    StoppedStack stopped = stop_and_copy_stack(process_, tid);
    into.stops_ns.push_back(stopped.stopped_ns);
    snapshot = std::move(stopped.snapshot);
  } else {
    snapshot = watch_stack(process_, tid);
  }
  if (!thread) {
    now.tid = 0;
    return now;
  }
  if (!options.stop) {
    into.switches[tid] = thread->switches;
    if (const auto bytes = bytes_moved(process_.pid, tid)) {
      into.moved_bytes[tid] = *bytes;
    }
  }
  now.name = thread->name;
  now.state = thread->state;
  now.role = role_of(process_, *thread);
  const std::vector<LiveFrame> stack =
      snapshot && budget.take_items(1) ? modules_.unwind(*snapshot) : std::vector<LiveFrame>{};
  budget.take_items(stack.size());
  now.native = described(modules_, stack);
  const auto own = std::find_if(python.begin(), python.end(),
                                [&](const PythonThread& other) { return other.tid == tid; });
  if (own != python.end()) {
    now.holds_gil = own->holds_gil;
    now.python_is_whole = own->whole;
    for (const PythonFrameText& frame : own->frames) {
      now.python.push_back({frame.function, frame.file, frame.line, "", true});
    }
  }
  const bool waits_for_gil = python_ && thread->system_call &&
                             thread->system_call->number == SYS_futex &&
                             python_->is_gil(thread->system_call->arguments[0]);
  const WaitingFor waiting = waiting_of(process_, *thread, now, waits_for_gil);
  now.waiting = waiting.waiting;
  now.waiting_on = waiting.on;
  now.timed = waiting.timed;
  now.waiting_on += arguments_of(modules_, stack, now);
  return now;
}

// One sentence each, of what stands between us and the process.
void Watcher::explain(Look& look) const {
  const int pid = process_.pid;
  if (process_.state == 'Z') {
    look.limits.push_back(
        fmt::format("process {} has ended and waits for its parent (zombie)", pid));
    return;
  }
  if (process_.mappings.empty()) {
    const bool other_user = geteuid() != 0 && process_.uid != geteuid();
    const std::string reason =
        other_user ? fmt::format("it belongs to user {}; ask as that user or as root", process_.uid)
        : yama_scope() >= 2 ? "ptrace is restricted (kernel.yama.ptrace_scope): root is needed"
                            : "the kernel does not permit it (CAP_SYS_PTRACE; in a container: "
                              "--cap-add=SYS_PTRACE)";
    look.limits.push_back(
        fmt::format("/proc/{0}/maps: the memory of process {0} may not be read: {1}", pid, reason));
    return;
  }
  if (!process_.same_pid_namespace) {
    look.limits.push_back(
        fmt::format("process {} is in another container (pid namespace), where it is {}", pid,
                    process_.inner_pid));
  }
  for (const ThreadNow& thread : look.threads) {
    if (thread.state == 'D') {
      look.limits.push_back(deep_sleep_text(thread, pid));
    }
  }
  explain_no_stacks(look);
}

void Watcher::explain_no_stacks(Look& look) const {
  const int pid = process_.pid;
  const auto has_stack = [](const ThreadNow& thread) {
    return !thread.python.empty() || !thread.native.empty();
  };
  if (look.threads.empty()) {
    look.limits.push_back(fmt::format("process {} has ended meanwhile", pid));
  } else if (std::none_of(look.threads.begin(), look.threads.end(), has_stack)) {
    const bool runs = std::all_of(look.threads.begin(), look.threads.end(),
                                  [](const ThreadNow& thread) { return thread.state == 'R'; });
    look.limits.push_back(
        runs && look.stops_ns.empty()
            ? fmt::format(
                  "process {}: all its threads run, and their stacks can be read only while "
                  "they are stopped for a moment: --stop",
                  pid)
            : fmt::format("process {}: no stack of it can be read", pid));
  }
}

Look Watcher::look(const LookOptions& options) {
  Look look;
  Budget budget(kBudgetOfOne);
  const std::vector<PythonThread> python =
      python_ ? python_->threads(budget) : std::vector<PythonThread>{};
  look.knows_gil = python_ && python_->knows_gil();
  size_t looked_at = 0;
  const auto look_at = [&](int tid) {
    if (looked_at == kMostThreads || !budget.has_time()) {
      return;
    }
    ++looked_at;
    ThreadNow now = thread_now(tid, options, python, look, budget);
    if (now.tid != 0) {
      look.threads.push_back(std::move(now));
    }
  };
  look_at(process_.pid);
  for (const int tid : process_.threads) {
    if (tid != process_.pid) {
      look_at(tid);
    }
  }
  std::sort(look.threads.begin(), look.threads.end(),
            [](const ThreadNow& a, const ThreadNow& b) { return a.tid < b.tid; });
  explain(look);
  explain_left_out(looked_at, budget, look);
  return look;
}

// What no program of good will has.
void Watcher::explain_left_out(size_t looked_at, const Budget& budget, Look& look) const {
  const int pid = process_.pid;
  if (process_.state != 'Z' && looked_at < process_.threads.size()) {
    look.limits.push_back(fmt::format("process {}: only {} of its {} threads were looked at", pid,
                                      looked_at, process_.threads.size()));
  }
  if (budget.is_spent()) {
    look.limits.push_back(
        fmt::format("process {}: its stacks take too long to read, some are left out", pid));
  }
  if (process_.maps_cut) {
    look.limits.push_back(
        fmt::format("process {}: it has more files mapped than are looked at", pid));
  }
}

namespace {

const ThreadNow* thread_in(const Look& look, int tid) {
  const auto found = std::find_if(look.threads.begin(), look.threads.end(),
                                  [&](const ThreadNow& other) { return other.tid == tid; });
  return found == look.threads.end() ? nullptr : &*found;
}

// A running thread has no native frames.
bool is_same_place(const ThreadNow& a, const ThreadNow& b) {
  const bool native = same_frames(a.native, b.native);
  if (a.python.empty() || b.python.empty()) {
    return a.python.empty() && b.python.empty() && !a.native.empty() && native &&
           a.state == b.state;
  }
  const bool path = a.python.front().function == b.python.front().function &&
                    a.python.front().file == b.python.front().file &&
                    std::equal(a.python.begin() + 1, a.python.end(), b.python.begin() + 1,
                               b.python.end(), is_same_frame);
  return path && (native || a.native.empty() || b.native.empty());
}

bool is_at_one_instruction(const ThreadNow& a, const ThreadNow& b) {
  return a.state == b.state && same_frames(a.python, b.python) && same_frames(a.native, b.native);
}

template <class Counts>
uint64_t more_in(const Counts& first, const Counts& second, int tid) {
  const auto before = first.find(tid);
  const auto after = second.find(tid);
  return before != first.end() && after != second.end() && after->second > before->second
             ? after->second - before->second
             : 0;
}

}  // namespace

void compare_looks(const Look& first, Look& second) {
  for (ThreadNow& thread : second.threads) {
    const ThreadNow* const earlier = thread_in(first, thread.tid);
    thread.steady = earlier != nullptr && is_same_place(*earlier, thread) &&
                    more_in(first.moved_bytes, second.moved_bytes, thread.tid) < kMovesData;
    thread.ran = more_in(first.switches, second.switches, thread.tid) != 0 ||
                 (thread.steady && !is_at_one_instruction(*earlier, thread));
  }
}

void compare_between(const Look& first, const Look& between, Look& second) {
  for (ThreadNow& thread : second.threads) {
    const ThreadNow* const earlier = thread_in(first, thread.tid);
    const ThreadNow* const meanwhile = thread_in(between, thread.tid);
    const bool knows = earlier != nullptr && meanwhile != nullptr && !earlier->python.empty() &&
                       !meanwhile->python.empty();
    thread.steady = thread.steady && (!knows || is_same_place(*earlier, *meanwhile));
  }
}

bool main_thread_runs(const Look& look) {
  return std::any_of(look.threads.begin(), look.threads.end(), [](const ThreadNow& thread) {
    return thread.role == "main" && thread.waiting == Waiting::kRuns;
  });
}

}  // namespace traintrace
