#include "analyzer/live/job_now.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "analyzer/live/in_parallel.h"
#include "analyzer/live/targets.h"
#include "analyzer/model/rank_assignment.h"

namespace traintrace {
namespace {

TimeNs now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Processes of one container lead to the same folder by different paths (/proc/PID/root).
void insert_once(std::vector<std::string>& folders, const std::string& folder) {
  if (std::none_of(folders.begin(), folders.end(),
                   [&](const std::string& other) { return is_same_file(other, folder); })) {
    folders.push_back(folder);
  }
}

// The processes of those traces that run on this machine.
std::vector<pid_t> running_in(const TraceSet& traces) {
  std::vector<pid_t> pids;
  for (const ProcessTrace& trace : traces.processes) {
    if (trace.running_now == true) {
      pids.push_back(trace.pid);
    }
  }
  return pids;
}

bool has_frames(const Look& look) {
  return std::any_of(look.threads.begin(), look.threads.end(), [](const ThreadNow& thread) {
    return !thread.python.empty() || !thread.native.empty();
  });
}

// What may be the work of a child process: batches, the end of a pipe.
bool waits_for_child(const Look& look) {
  return std::any_of(look.threads.begin(), look.threads.end(), [](const ThreadNow& thread) {
    return thread.role == "main" &&
           (thread.waiting == Waiting::kDataLoader || thread.waiting == Waiting::kQueue ||
            thread.waiting == Waiting::kPipe || thread.waiting == Waiting::kChild);
  });
}

void add_stops(const Look& from, Look& into) {
  into.stops_ns.insert(into.stops_ns.end(), from.stops_ns.begin(), from.stops_ns.end());
}

void adopt(pid_t pid, ThreadNow& thread) {
  thread.pid = pid;
  const bool is_worker =
      std::any_of(thread.python.begin(), thread.python.end(), [](const FrameNow& frame) {
        return frame.file.ends_with("torch/utils/data/_utils/worker.py");
      });
  if (is_worker) {
    thread.role = "data loader worker";
  } else if (thread.role == "main") {
    thread.role = "child process";
  }
}

ReadError problem(const std::string& message) {
  ReadError error;
  error.message = message;
  error.fatal = true;
  return error;
}

}  // namespace

Result<Job> Job::find(const JobOptions& options) {
  // Debug files are looked for on this machine only: an answer is due within seconds.
  unsetenv("DEBUGINFOD_URLS");
  Job job;
  job.options_ = options;
  job.inputs_ = options.traces;
  std::vector<pid_t> pids = options.pids;
  if (options.all) {
    job.processes_ = gpu_processes();
    if (job.processes_.empty()) {
      return problem("no process that we may look at has loaded libcuda.so.1 or is recorded");
    }
  }
  if (!options.traces.empty()) {
    const TraceSet traces = read_traces(options.traces, {.events = false});
    if (traces.processes.empty()) {
      return traces.errors.empty() ? problem("no trace") : traces.errors.front();
    }
    const std::vector<pid_t> running = running_in(traces);
    pids.insert(pids.end(), running.begin(), running.end());
  }
  std::optional<ReadError> first;
  for (const pid_t pid : pids) {
    Result<ProcProcess> process = read_process(pid);
    if (process) {
      job.processes_.push_back(std::move(*process));
    } else {
      job.absent_.push_back(process.error().file + ": " + process.error().message);
      first = first ? first : process.error();
    }
  }
  if (first && job.processes_.empty() && options.traces.empty()) {
    return *first;
  }
  std::sort(job.processes_.begin(), job.processes_.end(),
            [](const ProcProcess& a, const ProcProcess& b) { return a.pid < b.pid; });
  job.processes_.erase(
      std::unique(job.processes_.begin(), job.processes_.end(),
                  [](const ProcProcess& a, const ProcProcess& b) { return a.pid == b.pid; }),
      job.processes_.end());
  for (const ProcProcess& process : job.processes_) {
    job.pids_.push_back(process.pid);
    // Its folder has the other ranks, whoever of them is still there.
    if (const std::optional<std::string> trace = trace_of_process(process)) {
      insert_once(job.inputs_, std::filesystem::path(*trace).parent_path().string());
    }
  }
  return job;
}

TraceSet Job::read() const {
  if (inputs_.empty()) {
    return {};
  }
  TraceSet traces = read_traces(inputs_, {.events = false});
  if (std::any_of(traces.processes.begin(), traces.processes.end(), holds_several_ranks)) {
    traces = read_traces(inputs_, {.events = true});
  }
  return traces;
}

bool Job::is_running() const {
  return std::any_of(processes_.begin(), processes_.end(), [](const ProcProcess& process) {
    const Result<ProcProcess> now = read_process(process.pid);
    return now && now->start_time == process.start_time && now->state != 'Z';
  });
}

using Clock = std::chrono::steady_clock;

struct Job::Looking {
  std::unique_ptr<Watcher> watcher;
  Look first;
  Clock::time_point time;
  std::vector<Looking> children;

  static Looking at(const ProcProcess& process, const LookOptions& options) {
    Looking looking;
    looking.watcher = std::make_unique<Watcher>(process);
    looking.first = looking.watcher->look(options);
    looking.time = Clock::now();
    return looking;
  }

  // The children join the process that waits for them.
  Look again(const LookOptions& options) {
    Look look = watcher->look(options);
    compare_looks(first, look);
    add_stops(first, look);
    for (Looking& child : children) {
      const pid_t pid = child.watcher->process().pid;
      Look other = child.again(options);
      add_stops(other, look);
      for (ThreadNow& thread : other.threads) {
        adopt(pid, thread);
        look.threads.push_back(std::move(thread));
      }
    }
    watcher.reset();
    return look;
  }
};

// Two looks at each process, as far apart as asked.
std::vector<Job::Seen> Job::look_twice() const {
  const LookOptions options = {options_.stop};
  std::vector<Looking> looking(processes_.size());
  std::vector<Seen> seen(processes_.size());
  const std::map<pid_t, std::vector<pid_t>> children = children_of(pids_);
  in_parallel(looking.size(), [&](size_t i) {
    looking[i] = Looking::at(processes_[i], options);
    const auto own = children.find(processes_[i].pid);
    if (own != children.end() && waits_for_child(looking[i].first)) {
      for (const pid_t child : own->second) {
        if (const Result<ProcProcess> process = read_process(child)) {
          looking[i].children.push_back(Looking::at(*process, options));
        }
      }
    }
  });
  in_parallel(looking.size(), [&](size_t i) {
    std::this_thread::sleep_until(looking[i].time + std::chrono::nanoseconds(options_.interval));
    seen[i].look = looking[i].again(options);
    seen[i].time = now_ns();
  });
  return seen;
}

void Job::take(Seen& seen, ProcessTrace& into) {
  into.looked = seen.time;
  into.now = std::move(seen.look.threads);
}

JobNow Job::look() {
  JobNow now;
  now.limits = absent_;
  std::map<pid_t, Seen> looks;
  std::vector<Seen> seen = look_twice();
  for (size_t i = 0; i < seen.size(); ++i) {
    const Look& look = seen[i].look;
    now.stops_ns.insert(now.stops_ns.end(), look.stops_ns.begin(), look.stops_ns.end());
    now.limits.insert(now.limits.end(), look.limits.begin(), look.limits.end());
    now.looked_at += has_frames(look) ? 1 : 0;
    looks.emplace(processes_[i].pid, std::move(seen[i]));
  }
  std::sort(now.stops_ns.begin(), now.stops_ns.end());
  now.traces = read();
  for (ProcessTrace& trace : now.traces.processes) {
    const auto look = trace.running_now == true ? looks.find(trace.pid) : looks.end();
    if (look != looks.end()) {
      take(look->second, trace);
      looks.erase(look);
    }
  }
  for (const ProcProcess& process : processes_) {
    const auto look = looks.find(process.pid);
    if (look != looks.end()) {
      ProcessTrace trace = unrecorded_trace(process, now_ns());
      take(look->second, trace);
      now.traces.processes.push_back(std::move(trace));
      ++now.unrecorded;
    }
  }
  return now;
}

}  // namespace traintrace
