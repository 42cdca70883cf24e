// traintrace attach: what a running job waits for.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <iterator>
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
#include "analyzer/model/look_up_code.h"
#include "analyzer/reporters/findings_report.h"
#include "analyzer/reporters/judged_runs.h"
#include "analyzer/text/printable.h"
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

bool is_recorded(const std::vector<ProcessTrace>& processes) {
  return std::any_of(processes.begin(), processes.end(),
                     [](const ProcessTrace& trace) { return is_recorded(trace); });
}

// It has one of those processes, or one of which something was seen.
bool is_of_job(const RunInput& input, const std::vector<pid_t>& pids) {
  return std::any_of(
      input.processes.begin(), input.processes.end(), [&](const ProcessTrace& trace) {
        return trace.running_now == true &&
               (is_seen(trace) ||
                (is_recorded(trace) && std::binary_search(pids.begin(), pids.end(), trace.pid)));
      });
}

// Those to judge come first: the recorded ones of the job, else the rest of it, else the latest.  A
// launcher, or any other process that is not recorded, must not stand for the ranks.
size_t order_by_job(std::vector<RunInput>& inputs, const std::vector<pid_t>& pids) {
  const auto rest = std::stable_partition(
      inputs.begin(), inputs.end(), [&](const RunInput& input) { return is_of_job(input, pids); });
  const auto unrecorded = std::stable_partition(
      inputs.begin(), rest, [](const RunInput& input) { return is_recorded(input.processes); });
  if (rest == inputs.begin() && !inputs.empty()) {
    std::rotate(inputs.begin(), inputs.end() - 1, inputs.end());
    return 1;
  }
  return static_cast<size_t>((unrecorded != inputs.begin() ? unrecorded : rest) - inputs.begin());
}

Result<JudgedRun> judge_job(const TraceSet& traces, const std::vector<pid_t>& pids,
                            TimeNs hang_after, const JudgeRun& judge) {
  EventReader events;
  RunOptions options;
  options.hang_after = hang_after;
  options.read_events = [&](const ProcessTrace& tables) { return events.read(tables); };
  std::vector<RunInput> inputs = split_runs(traces.processes);
  const size_t count = order_by_job(inputs, pids);
  std::vector<OtherRun> rest;
  for (size_t i = count; i < inputs.size(); ++i) {
    rest.push_back(inputs[i].about);
  }
  inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(count), inputs.end());
  Result<JudgedRun> judged = judge_runs(std::move(inputs), traces.errors, options, judge);
  if (judged) {
    std::move(rest.begin(), rest.end(), std::back_inserter(judged->run.others));
  }
  return judged;
}

// "not recorded, and not part of the verdict: 4711 (torchrun train.py)"
std::string left_out_text(const TraceSet& traces, const Run& run) {
  constexpr size_t kMostNames = 8;
  std::vector<std::string> names;
  for (const ProcessTrace& trace : traces.processes) {
    const bool judged =
        std::any_of(run.processes.begin(), run.processes.end(), [&](const ProcessTrace& other) {
          return other.pid == trace.pid && other.host == trace.host;
        });
    if (!is_recorded(trace) && !judged) {
      const auto command = trace.facts.find("command-line");
      std::string line = command == trace.facts.end() ? "" : command->second;
      std::replace(line.begin(), line.end(), '\0', ' ');
      names.push_back(fmt::format("{}{}", trace.pid, line.empty() ? "" : " (" + line + ")"));
    }
  }
  const size_t more = names.size() > kMostNames ? names.size() - kMostNames : 0;
  names.resize(names.size() - more);
  return names.empty() ? ""
                       : fmt::format("not recorded, and not part of the verdict: {}{}",
                                     fmt::join(names, ", "),
                                     more == 0 ? "" : fmt::format(" and {} more", more));
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
    text += "note: " + printable(limit) + "\n";
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
  return printable_json(
             json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) +
         "\n";
}

struct Answer {
  std::string text;
  int status = 0;
};

std::vector<Finding> findings_about(Run& run, const AttachOptions& options) {
  read_details(run);
  Symbolizer symbolizer;
  look_up_code(run, symbolizer);
  return is_recorded(run.processes)
             ? find_all(run)
             : std::vector<Finding>{unrecorded_finding(run, options.job.interval)};
}

Result<Answer> judge(JobNow now, const std::vector<pid_t>& pids, const AttachOptions& options) {
  Result<JudgedRun> judged = judge_job(now.traces, pids, options.hang_after_ns,
                                       [&](Run& run) { return findings_about(run, options); });
  if (!judged) {
    return judged.error();
  }
  const Run& run = judged->run;
  if (now.looked_at == 0 && !is_recorded(run.processes)) {
    ReadError error;
    error.message =
        now.limits.empty() ? "nothing can be seen of these processes" : now.limits.front();
    return error;
  }
  const std::string left_out = is_recorded(run.processes) ? left_out_text(now.traces, run) : "";
  if (!left_out.empty()) {
    now.limits.push_back(left_out);
  }
  const FindingsReport report = report_findings(run, std::move(judged->findings));
  Answer answer;
  answer.status = report.has_error() ? 1 : 0;
  answer.text = options.format == "json"        ? json_of(run, report, now, options)
                : options.format == "collapsed" ? threads_collapsed(run)
                                                : text_of(run, report, now, options);
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
    return fail(all.limits.empty() ? "no process found on any host" : all.limits.front());
  }
  return supervised([&] { return say(judge(all, {}, options)); });
}

// Whether what was recorded says that the job hangs.  Nobody is looked at for that.
bool seems_stuck(const Job& job, TimeNs hang_after) {
  constexpr int kStuck = 1;
  const auto look = [&] {
    const Result<JudgedRun> judged =
        judge_job(job.read(), job.pids(), hang_after, [](const Run& run) { return find_all(run); });
    return judged && report_findings(judged->run, judged->findings).has_error() ? kStuck : 0;
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
  note("the job has ended");
  return 0;
}

// 0, -5 and what no process ever has.
bool is_no_process(const std::string& target) {
  const size_t digits = target.find_first_not_of("-+");
  int pid = 0;
  const char* const end = target.data() + target.size();
  return digits != target.npos && target.find_first_not_of("0123456789", digits) == target.npos &&
         (std::from_chars(target.data(), end, pid).ptr != end || pid <= 0) &&
         access(target.c_str(), F_OK) != 0;
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
  for (const std::string& target : options.targets) {
    if (is_no_process(target)) {
      return fail(target + ": there is no process with this number");
    }
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
    return fail("--watch watches one host: start it without mpirun or srun");
  }
  std::optional<Mpi> others = Mpi::join();
  if (!others && Mpi::is_started_by()) {
    note("MPI cannot be loaded or has one process: this host alone");
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
                     "PIDs, or traces of running processes (default: ./traintrace)");
  command.add_flag("--all", options->job.all, "every process of this machine that uses a GPU");
  command.add_flag("--watch", options->watch, "wait until the job hangs, then report why");
  command
      .add_option("--interval", options->interval, "time between the two samples of each process")
      ->capture_default_str();
  command.add_option(
      "--hang-after", options->hang_after,
      "report a hang only if ranks have been blocked this long (5s; with --watch 60s)");
  command.add_flag("--stop", options->job.stop,
                   "stop each thread briefly: exact stacks, of running threads too");
  command.add_flag("--inject", options->inject, "record a process that already runs (not built)")
      ->group("");
  command.add_option("--on-hang", options->on_hang,
                     "with --watch: run this shell command when the job hangs");
  command.add_option("--snapshot", options->snapshot,
                     "FOLDER: write the threads of the processes whose traces are in it beside the "
                     "traces, and print "
                     "nothing (used by TRAINTRACE_ON_ABORT=snapshot)");
  add_format(command, options->format, {"text", "json", "collapsed"});
  command.callback([options, &invocation] { invocation.status = attach(*options); });
}

}  // namespace traintrace
