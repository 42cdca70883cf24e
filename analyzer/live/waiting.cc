#include "analyzer/live/waiting.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "analyzer/model/process/code_place.h"

namespace traintrace {
namespace {

// Files of Python by their ends, and what a thread that is in them does.
struct PythonPlace {
  std::string_view file;
  Waiting waiting;
};
constexpr PythonPlace kPlaces[] = {
    {"torch/utils/data/dataloader.py", Waiting::kDataLoader},
    {"torch/utils/data/_utils/pin_memory.py", Waiting::kDataLoader},
    {"torch/utils/data/_utils/worker.py", Waiting::kDataLoader},
    {"torch/serialization.py", Waiting::kCheckpoint},
    {"torch/distributed/rendezvous.py", Waiting::kStore},
    {"/queue.py", Waiting::kQueue},
    {"multiprocessing/queues.py", Waiting::kQueue},
};

// Threads that name themselves (PyTorch, NCCL, the CUDA driver).
struct Role {
  std::string_view prefix;
  const char* role;
};
constexpr Role kRoles[] = {
    {"pt_autograd", "autograd"},
    {"pt_nccl_watchdg", "NCCL watchdog"},
    {"pt_nccl_heartbt", "NCCL heartbeat"},
    {"pt_tcpstore", "TCPStore"},
    {"pt_data_worker", "data loader worker"},
    {"pt_data_pin", "data loader pinning"},
    {"pt_", "PyTorch"},
    {"NCCL Progress", "NCCL proxy"},
    {"NCCL Service", "NCCL proxy"},
    {"NCCL", "NCCL"},
    {"cuda-EvtHandlr", "CUDA"},
    {"cuda", "CUDA"},
    {"traintrace", "traintrace"},
};

bool is_library(std::string_view path, std::string_view name) {
  const size_t slash = path.rfind('/');
  return path.substr(slash == path.npos ? 0 : slash + 1).starts_with(name);
}

// A function of C: no type, template or argument in its name.
bool is_plain(std::string_view function) {
  return std::all_of(function.begin(), function.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// NCCL's functions have each two names, of which the symbol table may tell the other.
std::string entry_name(const std::string& function) {
  return function.starts_with("pnccl") ? function.substr(1) : function;
}

// The outermost function of the library, which is what the job called.
std::optional<WaitingFor> in_library(const ThreadNow& now, std::string_view library,
                                     std::string_view prefix, Waiting waiting) {
  std::optional<WaitingFor> found;
  for (const FrameNow& frame : now.native) {
    if (is_library(frame.module, library)) {
      const std::string name = entry_name(frame.function);
      const bool is_entry = name.starts_with(prefix) && is_plain(name);
      found = WaitingFor{waiting, is_entry ? name : found ? found->on : ""};
    }
  }
  return found;
}

std::optional<WaitingFor> in_vendor_library(const ThreadNow& now) {
  if (auto nccl = in_library(now, "libnccl.so", "nccl", Waiting::kNccl)) {
    return nccl;
  }
  if (auto runtime = in_library(now, "libcudart.so", "cuda", Waiting::kCuda)) {
    return runtime;
  }
  return in_library(now, "libcuda.so", "cu", Waiting::kCuda);
}

// A dataset of the user's that the loader calls, say, is not the loader.
std::optional<WaitingFor> in_python_place(const ThreadNow& now) {
  std::optional<WaitingFor> found;  // the outermost: a loader has queues
  for (const FrameNow& frame : now.python) {
    if (is_user_file(frame.file)) {
      break;
    }
    for (const PythonPlace& place : kPlaces) {
      if (frame.file.ends_with(place.file)) {
        found = WaitingFor{place.waiting, ""};
      }
    }
  }
  return found;
}

std::optional<WaitingFor> in_store(const ThreadNow& now) {
  const bool found = std::any_of(now.native.begin(), now.native.end(), [](const FrameNow& frame) {
    return frame.function.find("c10d::TCPStore") != std::string::npos ||
           frame.function.find("c10d::tcputil") != std::string::npos ||
           frame.function.find("c10d::detail::TCPClient") != std::string::npos;
  });
  return found ? std::optional(WaitingFor{Waiting::kStore, ""}) : std::nullopt;
}

WaitingFor by_descriptor(const ProcProcess& process, uint64_t descriptor) {
  const std::string target = descriptor_target(process.pid, descriptor);
  if (target.starts_with("socket:")) {
    return {Waiting::kSocket, ""};
  }
  if (target.starts_with("pipe:")) {
    return {Waiting::kPipe, ""};
  }
  if (target.starts_with("/")) {
    return {Waiting::kFile, target};
  }
  return {};
}

bool calls_any(const ThreadNow& now, std::initializer_list<std::string_view> parts) {
  return std::any_of(now.native.begin(), now.native.end(), [&](const FrameNow& frame) {
    return !is_user_module(frame.module) &&
           std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
             return frame.function.find(part) != std::string::npos;
           });
  });
}

// The kernel wakes who waits for a thread's number to be cleared, at its end
// (CLONE_CHILD_CLEARTID). It knows no private futexes, and so these wait in a shared one
// (nptl/pthread_join_common.c).
bool waits_for_end(const ProcProcess& process, const ProcThread& thread) {
  const auto& arguments = thread.system_call->arguments;
  return (arguments[1] & FUTEX_PRIVATE_FLAG) == 0 &&
         std::any_of(process.threads.begin(), process.threads.end(), [&](int tid) {
           return tid != thread.tid && static_cast<uint64_t>(tid) == arguments[2];
         });
}

// (address, operation, value, timeout, ..)
WaitingFor by_futex(const ProcProcess& process, const ProcThread& thread, const ThreadNow& now) {
  const bool timed = thread.system_call->arguments[3] != 0;
  if (waits_for_end(process, thread) || calls_any(now, {"pthread_join", "pthread_clockjoin"})) {
    return {Waiting::kThread, "", timed};
  }
  return {calls_any(now, {"pthread_cond_"}) ? Waiting::kCondition : Waiting::kLock, "", timed};
}

WaitingFor by_system_call(const ProcProcess& process, const ProcThread& thread,
                          const ThreadNow& now) {
  const SystemCall& call = *thread.system_call;
  switch (call.number) {
    case SYS_futex:
      return by_futex(process, thread, now);
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return {Waiting::kSleep, ""};
    case SYS_wait4:
    case SYS_waitid:
    case SYS_clone:  // with CLONE_VFORK: else it returns at once
    case SYS_clone3:
#if defined(SYS_vfork)
    case SYS_vfork:
#endif
      return {Waiting::kChild, ""};
    case SYS_read:
    case SYS_write:
    case SYS_pread64:
    case SYS_pwrite64:
    case SYS_readv:
    case SYS_writev:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_ftruncate:
    case SYS_flock:
    case SYS_fcntl:
      return by_descriptor(process, call.arguments[0]);
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
      return {Waiting::kSocket, ""};
    case SYS_openat:
      return {Waiting::kFile, ""};
#if defined(SYS_poll)
    case SYS_poll:
    case SYS_select:
    case SYS_epoll_wait:
#endif
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait:
      return {Waiting::kSocket, ""};
    default:
      return {};
  }
}

}  // namespace

const char* waiting_text(Waiting waiting) {
  switch (waiting) {
    case Waiting::kUnknown:
      return "something";
    case Waiting::kRuns:
      return "nothing";
    case Waiting::kNccl:
      return "NCCL";
    case Waiting::kCuda:
      return "CUDA";
    case Waiting::kGil:
      return "the GIL";
    case Waiting::kDataLoader:
      return "the data loader";
    case Waiting::kQueue:
      return "a queue";
    case Waiting::kCheckpoint:
      return "a checkpoint";
    case Waiting::kStore:
      return "the rendezvous store";
    case Waiting::kFile:
      return "a file";
    case Waiting::kSocket:
      return "a socket";
    case Waiting::kPipe:
      return "a pipe";
    case Waiting::kSleep:
      return "the end of a sleep";
    case Waiting::kChild:
      return "another process";
    case Waiting::kLock:
      return "a lock";
    case Waiting::kCondition:
      return "a condition variable";
    case Waiting::kThread:
      return "another thread to end";
  }
  return "";
}

WaitingFor waiting_of(const ProcProcess& process, const ProcThread& thread, const ThreadNow& now,
                      bool waits_for_gil) {
  if (thread.state == 'R') {
    return {Waiting::kRuns, ""};
  }
  if (waits_for_gil) {
    return {Waiting::kGil, ""};
  }
  for (const auto& judge : {in_vendor_library, in_python_place, in_store}) {
    if (const std::optional<WaitingFor> found = judge(now)) {
      return *found;
    }
  }
  return thread.system_call ? by_system_call(process, thread, now) : WaitingFor{};
}

std::string role_of(const ProcProcess& process, const ProcThread& thread) {
  if (thread.tid == process.pid) {
    return "main";
  }
  for (const Role& role : kRoles) {
    if (std::string_view(thread.name).starts_with(role.prefix)) {
      return role.role;
    }
  }
  return "";
}

}  // namespace traintrace
