#include "analyzer/live/job_now.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <thread>

#include "analyzer/live/in_time.h"
#include "analyzer/live/targets.h"
#include "analyzer/model/runs/rank_assignment.h"
#include "analyzer/reader/same_process.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

using Clock = std::chrono::steady_clock;

// For what a process makes us read.  64 ranks of a job take one second on two cores.
constexpr auto kPatience = std::chrono::seconds(5);
constexpr auto kPatienceToFind = std::chrono::seconds(2);
constexpr auto kPatienceInAll = std::chrono::milliseconds(9'500);
constexpr auto kLeastToRead = std::chrono::seconds(1);

TimeNs now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Processes of one container lead to the same folder by different paths (/proc/PID/root).
void insert_once(std::vector<std::string>& inputs, const std::string& input) {
  if (std::none_of(inputs.begin(), inputs.end(),
                   [&](const std::string& other) { return is_same_file(other, input); })) {
    inputs.push_back(input);
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
  Job job;
  job.options_ = options;
  job.inputs_ = options.traces;
  std::vector<pid_t> pids = options.pids;
  if (options.all) {
    job.processes_ = gpu_processes(job.time_, kPatienceToFind);
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
  for (ProcProcess& process : job.processes_) {
    job.pids_.push_back(process.pid);
    // Its folder has the other ranks, whoever of them is still there.
    if (const std::optional<std::string> input = input_of_process(process)) {
      insert_once(job.inputs_, *input);
    }
    keep_little(process);
  }
  return job;
}

namespace {

TraceSet read_inputs(const std::vector<std::string>& inputs) {
  TraceSet traces = read_traces(inputs, {.events = false});
  return std::any_of(traces.processes.begin(), traces.processes.end(), holds_several_ranks)
             ? read_traces(inputs, {.events = true})
             : traces;
}

void append(TraceSet from, TraceSet& into) {
  for (ProcessTrace& trace : from.processes) {
    // A pointer in one folder may lead to a trace in another.
    if (std::none_of(into.processes.begin(), into.processes.end(), [&](const ProcessTrace& other) {
          return other.source == trace.source || is_of_same_process(other, trace);
        })) {
      into.processes.push_back(std::move(trace));
    }
  }
  std::move(from.errors.begin(), from.errors.end(), std::back_inserter(into.errors));
  std::move(from.supporting.begin(), from.supporting.end(), std::back_inserter(into.supporting));
  std::move(from.telemetry.begin(), from.telemetry.end(), std::back_inserter(into.telemetry));
}

}  // namespace

TraceSet Job::read() const {
  return inputs_.empty() ? TraceSet() : read_inputs(inputs_);
}

// Folders that nobody named but the processes: none of them decides how long an answer takes.
TraceSet Job::read_in_time(std::vector<std::string>& limits) {
  std::vector<std::function<TraceSet()>> works;
  for (const std::string& input : inputs_) {
    works.emplace_back([input] { return read_inputs(std::vector<std::string>{input}); });
  }
  const Clock::duration limit =
      std::max<Clock::duration>(kPatienceInAll, time_.elapsed() + kLeastToRead);
  std::vector<std::optional<TraceSet>> sets = in_time(std::move(works), time_, limit);
  TraceSet all;
  for (size_t i = 0; i < sets.size(); ++i) {
    if (sets[i]) {
      append(std::move(*sets[i]), all);
    } else {
      limits.push_back(fmt::format(
          "{0}: its traces take too long to read beside all others; ask `traintrace attach {0}`",
          inputs_[i]));
    }
  }
  return all;
}

bool Job::is_running() const {
  return std::any_of(processes_.begin(), processes_.end(), [](const ProcProcess& process) {
    const Result<ProcProcess> now = read_process(process.pid);
    return now && now->start_time == process.start_time && !now->has_ended();
  });
}

namespace {

// A process and, where it waits for them, its children.
struct Looking {
  std::unique_ptr<Watcher> watcher;
  Look first;
  std::vector<Look> between;  // at one whose main thread ran
  Clock::time_point time;
  std::vector<Looking> children;

  static Looking at(ProcProcess process, const LookOptions& options) {
    Looking looking;
    looking.watcher = std::make_unique<Watcher>(std::move(process));
    looking.first = looking.watcher->look(options);
    looking.time = Clock::now();
    return looking;
  }

  // The children join the process that waits for them.
  Look again(const LookOptions& options) {
    Look look = watcher->look(options);
    compare_looks(first, look);
    for (const Look& other : between) {
      compare_between(first, other, look);
    }
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

}  // namespace

// All that it needs, since it may outlive the job.
struct Job::TwoLooks {
  pid_t pid;
  uint64_t start_time;
  std::vector<pid_t> children;
  LookOptions options;
  TimeNs interval;

  Seen operator()() const {
    Result<ProcProcess> process = read_process(pid);
    Seen seen;
    if (!process || process->start_time != start_time) {
      seen.look.limits.push_back(fmt::format("process {} has ended meanwhile", pid));
      return seen;
    }
    Looking looking = Looking::at(std::move(*process), options);
    if (!children.empty() && waits_for_child(looking.first)) {
      for (const pid_t child : children) {
        if (Result<ProcProcess> other = read_process(child)) {
          looking.children.push_back(Looking::at(std::move(*other), options));
        }
      }
    }
    const auto pause = std::chrono::nanoseconds(interval) / (kLooksBetween + 1);
    for (int i = 1; i <= kLooksBetween && !options.stop && main_thread_runs(looking.first); ++i) {
      std::this_thread::sleep_until(looking.time + i * pause);
      looking.between.push_back(looking.watcher->look(options));
    }
    std::this_thread::sleep_until(looking.time + std::chrono::nanoseconds(interval));
    seen.look = looking.again(options);
    seen.time = now_ns();
    return seen;
  }
};

// Two looks at each process, as far apart as asked.
std::vector<Job::Seen> Job::look_twice() {
  const std::map<pid_t, std::vector<pid_t>> children = children_of(pids_);
  std::vector<std::function<Seen()>> works;
  for (const ProcProcess& process : processes_) {
    const auto own = children.find(process.pid);
    works.emplace_back(TwoLooks{process.pid,
                                process.start_time,
                                own == children.end() ? std::vector<pid_t>{} : own->second,
                                {options_.stop},
                                options_.interval});
  }
  const auto interval = std::chrono::nanoseconds(options_.interval);
  std::vector<std::optional<Seen>> seen =
      in_time(std::move(works), time_, time_.elapsed() + interval + kPatience);
  std::vector<Seen> all;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (!seen[i]) {
      seen[i].emplace();
      seen[i]->look.limits.push_back(
          fmt::format("process {} could not be looked at in {} seconds: its memory or its files do "
                      "not answer, or take too long to read",
                      processes_[i].pid, kPatience.count()));
    }
    all.push_back(std::move(*seen[i]));
  }
  return all;
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
  now.traces = options_.all ? read_in_time(now.limits) : read();
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
