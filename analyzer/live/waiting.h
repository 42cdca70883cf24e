// What a thread waits for, from its frames and its system call.
#pragma once

#include "analyzer/live/proc_files.h"
#include "analyzer/reader/thread_now.h"

namespace traintrace {

struct WaitingFor {
  Waiting waiting = Waiting::kUnknown;
  std::string on;
  bool timed = false;  // it waits no longer than a time that it has set itself
};

// `waits_for_gil`: its futex is the one of the GIL.
WaitingFor waiting_of(const ProcProcess& process, const ProcThread& thread, const ThreadNow& now,
                      bool waits_for_gil);

// Which part of the job a thread is, by the name it gave itself; empty: none that we know.
std::string role_of(const ProcProcess& process, const ProcThread& thread);

}  // namespace traintrace
