// A running job: its processes as they are right now, looked at twice.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/live/look.h"
#include "analyzer/live/served_time.h"
#include "analyzer/model/run.h"
#include "analyzer/reader/read_trace.h"

namespace traintrace {

struct JobOptions {
  std::vector<pid_t> pids;
  bool all = false;  // every process that uses a GPU
  std::vector<std::string> traces;
  TimeNs interval = 2'000'000'000;  // between the two looks
  bool stop = false;
};

struct JobNow {
  TraceSet traces;                  // recorded and unrecorded processes, with their threads
  std::vector<std::string> limits;  // what could not be had, and why
  int looked_at = 0;                // processes
  int unrecorded = 0;
  std::vector<int64_t> stops_ns;             // for how long each thread was held, shortest first
  std::vector<std::string> telemetry_texts;  // files of other hosts (several_hosts.h)
};

class Job {
 public:
  // Finds the processes.  An error: none of what was named is there.
  static Result<Job> find(const JobOptions& options);

  // Reads the traces, without looking at any process.
  TraceSet read() const;
  // Looks twice.
  JobNow look();
  // Whether a process of it still runs.
  bool is_running() const;
  const std::vector<pid_t>& pids() const { return pids_; }
  // Files and folders of traces of it.
  const std::vector<std::string>& inputs() const { return inputs_; }

 private:
  struct Seen {
    Look look;
    TimeNs time = 0;
  };
  struct TwoLooks;  // at one process
  std::vector<Seen> look_twice();
  TraceSet read_in_time(std::vector<std::string>& limits);
  static void take(Seen& seen, ProcessTrace& into);

  JobOptions options_;
  ServedTime time_;
  std::vector<pid_t> pids_;
  std::vector<ProcProcess> processes_;
  std::vector<std::string> inputs_;  // files and folders of traces
  std::vector<std::string> absent_;  // what was named and is not there
};

}  // namespace traintrace
