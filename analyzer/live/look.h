// One look at a running process: what each of its threads does right now.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/live/live_modules.h"
#include "analyzer/live/proc_files.h"
#include "analyzer/live/python_process.h"
#include "analyzer/reader/thread_now.h"

namespace traintrace {

struct LookOptions {
  bool stop = false;  // each thread for an instant, with ptrace: exact stacks of running ones too
};

struct Look {
  std::vector<ThreadNow> threads;       // by tid
  std::map<int, uint64_t> switches;     // by tid, as long as nobody was stopped
  std::map<int, uint64_t> moved_bytes;  // by tid: read and written so far; where it may be read
  std::vector<std::string> limits;      // what could not be had, and why
  std::vector<int64_t> stops_ns;        // for how long each thread was held
  bool knows_gil = false;
};

// Keeps what is read of the process's files between looks.
class Watcher {
 public:
  explicit Watcher(ProcProcess process);

  Look look(const LookOptions& options);
  const ProcProcess& process() const { return process_; }
  int python_minor() const { return python_ ? python_->minor() : 0; }  // 0: no Python

 private:
  ThreadNow thread_now(int tid, const LookOptions& options, const std::vector<PythonThread>& python,
                       Look& into, Budget& budget);
  void explain(Look& look) const;
  void explain_no_stacks(Look& look) const;
  void explain_left_out(size_t looked_at, const Budget& budget, Look& look) const;

  ProcProcess process_;
  LiveModules modules_;
  std::optional<PythonProcess> python_;
};

// Marks the threads of `second` that do what they did in `first`: that are in the same place, and
// have not moved data.  A place is a call path: a loop within one function, be it endless, stays in
// one.
void compare_looks(const Look& first, Look& second);
// Threads that went elsewhere in a look between those two.
void compare_between(const Look& first, const Look& between, Look& second);

// Its main thread runs, so that two looks may see one place of a long way.
bool main_thread_runs(const Look& look);

}  // namespace traintrace
