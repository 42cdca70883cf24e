// traintrace attach: what a running job waits for.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "analyzer/commands/command.h"
#include "analyzer/commands/details.h"
#include "analyzer/commands/event_reader.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang_finding.h"
#include "analyzer/live/job_now.h"
#include "analyzer/live/mpi.h"
#include "analyzer/live/several_hosts.h"
#include "analyzer/live/snapshot.h"
#include "analyzer/live/threads_report.h"
#include "analyzer/live/unrecorded.h"
#include "analyzer/model/build_run.h"
#include "analyzer/model/look_up_code.h"
#include "analyzer/reporters/findings_report.h"
#include "analyzer/text/words.h"

namespace traintrace {
namespace {

struct AttachOptions {
  std::vector<std::string> targets;
  JobOptions job;
  bool watch = false;
  bool inject = false;
  std::string interval = "2s";
  std::string hang_after;
  std::string on_hang;
  std::string snapshot;
  std::string format = "text";
  TimeNs hang_after_ns = 0;
};

bool is_recorded(const ProcessTrace& trace) {
  const auto source = trace.facts.find("source");
  return source == trace.facts.end() || source->second != "attach";
}

bool is_seen(const ProcessTrace& trace) {
  return std::any_of(trace.now.begin(), trace.now.end(), [](const ThreadNow& thread) {
    return !thread.python.empty() || !thread.native.empty();
  });
}

// The run that has one of those processes, if it is recorded, or one of which something was seen;
// the latest where several have.
Result<Run> run_of_job(const TraceSet& traces, const std::vector<pid_t>& pids, TimeNs hang_after) {
  const auto has_job = [&](const Run& run) {
    return std::any_of(run.processes.begin(), run.processes.end(), [&](const ProcessTrace& trace) {
      return trace.running_now == true &&
             (is_seen(trace) ||
              (is_recorded(trace) && std::binary_search(pids.begin(), pids.end(), trace.pid)));
    });
  };
  EventReader events;
  RunOptions options;
  options.hang_after = hang_after;
  options.read_events = [&](const ProcessTrace& tables) { return events.read(tables); };
  Result<Run> latest = build_run(traces.processes, traces.errors, options);
  if (!latest || has_job(*latest)) {
    return latest;
  }
  for (auto other = latest->others.rbegin(); other != latest->others.rend(); ++other) {
    options.run = other->id;
    Result<Run> run = build_run(traces.processes, traces.errors, options);
    if (run && has_job(*run)) {
      return run;
    }
  }
  return latest;
}

bool is_recorded(const Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(),
                     [](const ProcessTrace& trace) { return is_recorded(trace); });
}

int64_t longest(const JobNow& now) {
  return now.stops_ns.empty() ? 0 : now.stops_ns.back();
}

std::string text_of(const Run& run, const FindingsReport& report, const JobNow& now,
                    const AttachOptions& options) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool colour = isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || *no_color == '\0');
  std::string text = findings_text(run, report, colour);
  text +=
      fmt::format("\nwhat {} process{} right now (two looks, {} apart{}):\n", now.looked_at,
                  now.looked_at == 1 ? " does" : "es do", seconds(options.job.interval),
                  options.job.stop ? fmt::format("; no thread was stopped for more than {:.1f} ms",
                                                 1e-6 * static_cast<double>(longest(now)))
                                   : "");
  text += threads_text(run);
  for (const std::string& limit : now.limits) {
    text += "note: " + limit + "\n";
  }
  return text;
}

std::string json_of(const Run& run, const FindingsReport& report, const JobNow& now,
                    const AttachOptions& options) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(findings_json(run, report));
  json["looks"] = {{"processes", now.looked_at},          {"unrecorded", now.unrecorded},
                   {"interval_ns", options.job.interval}, {"stopped", options.job.stop},
                   {"longest_stop_ns", longest(now)},     {"stops_ns", now.stops_ns}};
  json["limits"] = now.limits;
  json["threads"] = threads_json(run);
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

struct Answer {
  std::string text;
  int status = 0;
};

Result<Answer> judge(const JobNow& now, const std::vector<pid_t>& pids,
                     const AttachOptions& options) {
  Result<Run> run = run_of_job(now.traces, pids, options.hang_after_ns);
  if (!run) {
    return run.error();
  }
  if (now.looked_at == 0 && !is_recorded(*run)) {
    ReadError error;
    error.message =
        now.limits.empty() ? "nothing can be seen of these processes" : now.limits.front();
    return error;
  }
  read_details(*run);
  Symbolizer symbolizer;
  look_up_code(*run, symbolizer);
  std::vector<Finding> findings;
  if (is_recorded(*run)) {
    findings = find_all(*run);
  } else {
    findings.push_back(unrecorded_finding(*run, options.job.interval));
  }
  const FindingsReport report = report_findings(*run, std::move(findings));
  Answer answer;
  answer.status = report.has_error() ? 1 : 0;
  answer.text = options.format == "json"        ? json_of(*run, report, now, options)
                : options.format == "collapsed" ? threads_collapsed(*run)
                                                : text_of(*run, report, now, options);
  return answer;
}

int say(const Result<Answer>& answer) {
  if (!answer) {
    return fail(answer.error());
  }
  const int written = print(answer->text);
  return written != 0 ? written : answer->status;
}

int attach_once(Job& job, const AttachOptions& options) {
  const JobNow now = job.look();
  return supervised([&] { return say(judge(now, job.pids(), options)); });
}

// One process per host looks, and the first of them judges.
int attach_with_others(Mpi& others, Result<Job>& job, const AttachOptions& options) {
  JobNow own;
  std::string problem;
  if (job) {
    own = job->look();
  } else {
    problem = fmt::format("{}: {}", job.error().file, job.error().message);
  }
  const std::vector<std::string> texts = others.gather(packed(own, problem));
  if (others.rank() != 0) {
    return 0;
  }
  const JobNow all = unpacked(texts);
  if (all.traces.processes.empty()) {
    return fail(all.limits.empty() ? "nobody has seen a process" : all.limits.front());
  }
  return supervised([&] { return say(judge(all, {}, options)); });
}

// Whether what was recorded says that the job hangs.  Nobody is looked at for that.
bool seems_stuck(const Job& job, TimeNs hang_after) {
  constexpr int kStuck = 1;
  const auto look = [&] {
    const Result<Run> run = run_of_job(job.read(), job.pids(), hang_after);
    const std::vector<Finding> findings = run ? find_all(*run) : std::vector<Finding>{};
    return std::any_of(findings.begin(), findings.end(),
                       [](const Finding& finding) { return finding.severity == Severity::kError; })
               ? kStuck
               : 0;
  };
  return supervised(look) == kStuck;
}

int watch(Job& job, const AttachOptions& options) {
  while (job.is_running()) {
    if (seems_stuck(job, options.hang_after_ns)) {
      const int status = attach_once(job, options);
      if (!options.on_hang.empty() && std::system(options.on_hang.c_str()) != 0) {
        fail("--on-hang: the command failed: " + options.on_hang);
      }
      return status;
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(options.job.interval));
  }
  fmt::print(stderr, "traintrace: the job has ended\n");
  return 0;
}

// What is a number is a process, everything else a trace.
void sort_targets(AttachOptions& options) {
  for (const std::string& target : options.targets) {
    int pid = 0;
    const char* const end = target.data() + target.size();
    if (std::from_chars(target.data(), end, pid).ptr == end && pid > 0) {
      options.job.pids.push_back(pid);
    } else {
      options.job.traces.push_back(target);
    }
  }
  if (options.targets.empty() && !options.job.all) {
    options.job.traces.emplace_back("traintrace");
  }
}

int attach(AttachOptions options) {
  if (!options.snapshot.empty()) {
    return leave_snapshot(options.snapshot);
  }
  if (options.inject) {
    return fail(
        "--inject is not built (docs/attach.md says why): preload the library when the job starts");
  }
  const std::string hang_after = !options.hang_after.empty() ? options.hang_after
                                 : options.watch             ? "60s"
                                                             : "5s";
  const auto hang_ns = parse_duration(hang_after);
  const auto interval_ns = parse_duration(options.interval);
  if (!hang_ns || *hang_ns < 0) {
    return fail("--hang-after=" + hang_after + ": write a time as 5s or 500ms");
  }
  if (!interval_ns || *interval_ns < 0) {
    return fail("--interval=" + options.interval + ": write a time as 2s or 500ms");
  }
  options.hang_after_ns = *hang_ns;
  options.job.interval = *interval_ns;
  sort_targets(options);
  if (Mpi::is_started_by() && options.watch) {
    return fail("--watch looks at one host: start it without mpirun or srun");
  }
  std::optional<Mpi> others = Mpi::join();
  if (!others && Mpi::is_started_by()) {
    fmt::print(stderr, "traintrace: MPI cannot be loaded or has one process: this host alone\n");
  }
  Result<Job> job = Job::find(options.job);
  if (others) {
    return attach_with_others(*others, job, options);
  }
  if (!job) {
    return fail(job.error());
  }
  return options.watch ? watch(*job, options) : attach_once(*job, options);
}

}  // namespace

void declare_attach(CLI::App& command, Invocation& invocation) {
  auto options = std::make_shared<AttachOptions>();
  command.add_option("TARGET", options->targets,
                     "process ids, or traces whose processes run (default: ./traintrace)");
  command.add_flag("--all", options->job.all, "every process of this machine that uses a GPU");
  command.add_flag("--watch", options->watch, "wait until the job hangs, then say why");
  command.add_option("--interval", options->interval, "time between two looks")
      ->capture_default_str();
  command.add_option("--hang-after", options->hang_after,
                     "a shorter wait is a run in progress (5s; with --watch 60s)");
  command.add_flag("--stop", options->job.stop,
                   "stop each thread for an instant: exact stacks of running threads too");
  command.add_flag("--inject", options->inject, "start to record a process that runs");
  command.add_option("--on-hang", options->on_hang, "with --watch: a shell command to run then");
  command.add_option(
      "--snapshot", options->snapshot,
      "FOLDER: leave what the processes do beside their traces there and say nothing "
      "(what TRAINTRACE_ON_ABORT=snapshot starts)");
  add_format(command, options->format, {"text", "json", "collapsed"});
  command.callback([options, &invocation] { invocation.status = attach(*options); });
}

}  // namespace traintrace
