#include "analyzer/live/stack_snapshot.h"

#include <elf.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "analyzer/live/process_memory.h"

namespace traintrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMostStack = 256 << 10;  // a hundred frames of Python take some 50 KiB
constexpr uint64_t kRedZone = 128;          // below the stack pointer, System V psABI

const Mapping* mapping_of(const ProcProcess& process, uint64_t address) {
  const auto after = std::upper_bound(
      process.mappings.begin(), process.mappings.end(), address,
      [](uint64_t wanted, const Mapping& mapping) { return wanted < mapping.begin; });
  if (after == process.mappings.begin() || address >= std::prev(after)->end) {
    return nullptr;
  }
  return &*std::prev(after);
}

bool copy_stack(const ProcProcess& process, uint64_t stack_pointer, StackSnapshot& into) {
  const Mapping* const mapping = mapping_of(process, stack_pointer);
  if (mapping == nullptr) {
    return false;
  }
  into.begin = std::max(mapping->begin, stack_pointer - kRedZone);
  into.bytes.resize(std::min(mapping->end - into.begin, kMostStack));
  return OtherMemory(process.pid).read(into.begin, into.bytes.data(), into.bytes.size());
}

bool waits_there(const std::optional<ProcThread>& thread) {
  return thread && thread->system_call && thread->state != 'R';
}

bool same_place(const SystemCall& a, const SystemCall& b) {
  return a.number == b.number && a.arguments == b.arguments && a.stack_pointer == b.stack_pointer &&
         a.instruction == b.instruction;
}

#if defined(__x86_64__)
void take_registers(const user_regs_struct& from, StackSnapshot& into) {
  // rax rdx rcx rbx rsi rdi rbp rsp r8 .. r15
  into.registers = {from.rax, from.rdx, from.rcx, from.rbx, from.rsi, from.rdi, from.rbp, from.rsp,
                    from.r8,  from.r9,  from.r10, from.r11, from.r12, from.r13, from.r14, from.r15};
  into.instruction = from.rip;
}
#elif defined(__aarch64__)
void take_registers(const user_regs_struct& from, StackSnapshot& into) {
  std::copy(std::begin(from.regs), std::end(from.regs), into.registers.begin());
  into.registers[kStackPointerRegister] = from.sp;
  into.instruction = from.pc;
}
#endif

struct Stop {
  int signal = 0;                // that the stop has taken from the job and that must be given back
  Clock::time_point not_before;  // then it had not stopped yet
};

// Until it has stopped, whatever that takes up to a limit: a thread that is let go before it stops
// would stop later, with nobody to let it go.
std::optional<Stop> wait_for_stop(int tid) {
  constexpr auto kPatience = std::chrono::seconds(5);
  Stop stop;
  stop.not_before = Clock::now();
  const Clock::time_point give_up = stop.not_before + kPatience;
  for (Clock::time_point now = stop.not_before; now < give_up; now = Clock::now()) {
    int status = 0;
    const pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
    if (got == tid && WIFSTOPPED(status)) {
      stop.signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
      return stop;
    }
    if (got != 0) {
      return std::nullopt;
    }
    stop.not_before = now;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return std::nullopt;
}

// While somebody stands still for us, nobody else comes first, as far as we may say so.
class Hurry {
 public:
  Hurry() {
    known_ = pthread_getschedparam(pthread_self(), &policy_, &before_) == 0;
    const sched_param hurried = {.sched_priority = sched_get_priority_min(SCHED_RR)};
    pthread_setschedparam(pthread_self(), SCHED_RR, &hurried);
  }
  Hurry(const Hurry&) = delete;
  Hurry& operator=(const Hurry&) = delete;
  ~Hurry() {
    if (known_) {
      pthread_setschedparam(pthread_self(), policy_, &before_);
    }
  }

 private:
  bool known_ = false;
  int policy_ = 0;
  sched_param before_ = {};
};

}  // namespace

std::optional<StackSnapshot> watch_stack(const ProcProcess& process, int tid) {
  const std::optional<ProcThread> before = read_thread(process.pid, tid);
  StackSnapshot snapshot;
  if (!waits_there(before) || !copy_stack(process, before->system_call->stack_pointer, snapshot)) {
    return std::nullopt;
  }
  const std::optional<ProcThread> after = read_thread(process.pid, tid);
  if (!waits_there(after) || !same_place(*before->system_call, *after->system_call)) {
    return std::nullopt;
  }
  snapshot.tid = tid;
  snapshot.instruction = before->system_call->instruction;
  snapshot.registers[kStackPointerRegister] = before->system_call->stack_pointer;
  return snapshot;
}

StoppedStack stop_and_copy_stack(const ProcProcess& process, int tid) {
  StoppedStack result;
  const std::optional<ProcThread> thread = read_thread(process.pid, tid);
  // A thread in uninterruptible sleep would stop when it is done, whenever that is.
  if (!thread || thread->state == 'D' || thread->state == 'Z' ||
      ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
    return result;
  }
  const Hurry hurry;
  ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
  const std::optional<Stop> stop = wait_for_stop(tid);
  if (!stop) {
    return result;
  }
  user_regs_struct registers = {};
  iovec where = {&registers, sizeof registers};
  if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &where) == 0) {
    StackSnapshot snapshot;
    take_registers(registers, snapshot);
    if (copy_stack(process, *snapshot.registers[kStackPointerRegister], snapshot)) {
      snapshot.tid = tid;
      snapshot.stopped = true;
      result.snapshot = std::move(snapshot);
    }
  }
  ptrace(PTRACE_DETACH, tid, nullptr, stop->signal);
  result.stopped_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - stop->not_before).count();
  return result;
}

}  // namespace traintrace
