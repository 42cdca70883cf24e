// traintrace attach: what a running job waits for.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "analyzer/commands/command.h"
#include "analyzer/commands/live/artifact.h"
#include "analyzer/commands/live/judge_job.h"
#include "analyzer/commands/live/verdict_hooks.h"
#include "analyzer/commands/live/watch_metrics.h"
#include "analyzer/commands/output_file.h"
#include "analyzer/commands/sources/details.h"
#include "analyzer/commands/temporary_folder.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/device/telemetry_findings.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/isolation/stage.h"
#include "analyzer/live/job_now.h"
#include "analyzer/live/mpi.h"
#include "analyzer/live/several_hosts.h"
#include "analyzer/live/snapshot.h"
#include "analyzer/live/threads_report.h"
#include "analyzer/live/unrecorded.h"
#include "analyzer/model/process/look_up_code.h"
#include "analyzer/page/page.h"
#include "analyzer/reader/silent_inputs.h"
#include "analyzer/reporters/verdict/findings_report.h"
#include "analyzer/reporters/verdict/judged_runs.h"
#include "analyzer/telemetry/gpu_history.h"
#include "analyzer/text/printable.h"
#include "analyzer/text/words.h"
#include "analyzer/thresholds.h"

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
  std::vector<std::string> on;
  std::vector<VerdictHook> hooks;  // what both say
  std::string prometheus;          // empty: no metrics
  std::string artifacts;           // folder; empty: none are kept
  std::string snapshot;
  std::string format = "text";
  std::string output = "-";
  TimeNs hang_after_ns = 0;
};

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
  std::string text = findings_text(run, report, {options.job.traces}, stdout_screen());
  if (now.looked_at == 0) {
    text += "\nnone of these processes runs any more\n";
  } else {
    text += fmt::format("\nwhat {} process{} right now (two samples, {} apart{}):\n", now.looked_at,
                        now.looked_at == 1 ? " does" : "es do", seconds(options.job.interval),
                        options.job.stop
                            ? fmt::format("; no thread was stopped for more than {:.1f} ms",
                                          1e-6 * static_cast<double>(longest(now)))
                            : "");
    const Finding* const first = leading(report.findings);
    text += threads_text(run, first == nullptr ? Ranks() : first->culprits);
  }
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
  FindingsReport report;
  std::string json;      // for commands of the user; empty: there are none
  std::string artifact;  // path of the tar file; empty: there is none
};

std::vector<Finding> findings_about(Run& run, const TelemetryRecord& telemetry,
                                    const AttachOptions& options) {
  read_details(run);
  Symbolizer symbolizer;
  look_up_code(run, symbolizer);
  if (!is_recorded(run.processes)) {
    return {unrecorded_finding(run, options.job.interval)};
  }
  std::vector<Finding> findings = find_all(run);
  run_stage("telemetry", [&] { add_telemetry(run, telemetry, findings); });
  return findings;
}

TelemetryRecord telemetry_of(const TraceSet& traces) {
  std::vector<ReadError> problems;
  TelemetryRecord telemetry = read_telemetry(traces.telemetry, problems);
  for (const ReadError& problem : problems) {
    say(problem);
  }
  return telemetry;
}

// Its path; empty: it is not wanted, or cannot be written, which is told.
std::string keep_artifact(const Run& run, const Answer& answer, const JobNow& now,
                          TelemetryRecord telemetry, const AttachOptions& options) {
  if (options.artifacts.empty() || answer.status == 0) {
    return "";
  }
  ArtifactParts parts;
  parts.texts = {{"verdict.json", json_of(run, answer.report, now, options)},
                 {"verdict.txt", text_of(run, answer.report, now, options)},
                 {"verdict.html", page_html(run, answer.report, {{options.job.traces}})},
                 {"stacks.collapsed", threads_collapsed(run)}};
  parts.telemetry = now.traces.telemetry;
  parts.gpus = std::move(telemetry);
  parts.time = std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count();
  const Result<std::string> path = write_artifact(options.artifacts, run, parts);
  if (!path) {
    say(path.error());
    return "";
  }
  note("all that belongs to this verdict is in " + *path);
  return *path;
}

Result<Answer> judge(JobNow now, const std::vector<pid_t>& pids, const AttachOptions& options) {
  TelemetryRecord telemetry = telemetry_of(now.traces);
  Result<JudgedRun> judged = judge_job(now.traces, pids, options.hang_after_ns, [&](Run& run) {
    return findings_about(run, telemetry, options);
  });
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
                : options.format == "html"      ? page_html(run, report, {{options.job.traces}})
                                                : text_of(run, report, now, options);
  answer.json = options.hooks.empty() ? "" : json_of(run, report, now, options);
  answer.report = report;
  answer.artifact = keep_artifact(run, answer, now, std::move(telemetry), options);
  return answer;
}

int say(const Result<Answer>& answer, const AttachOptions& options) {
  if (!answer) {
    return fail(answer.error());
  }
  const int written =
      options.output == "-" ? print(answer->text) : write_output(options.output, answer->text);
  write_verdict_metrics(options.prometheus, answer->report, answer->artifact);
  run_hooks(options.hooks, answer->report, answer->json, answer->artifact);
  return written != 0 ? written : answer->status;
}

int attach_once(Job& job, const AttachOptions& options) {
  const JobNow now = job.look();
  return supervised([&] { return say(judge(now, job.pids(), options), options); });
}

// What the hosts sent of their telemetry, as files.
std::vector<std::string> telemetry_files(const JobNow& now, const std::string& folder) {
  std::vector<std::string> paths;
  paths.reserve(now.telemetry_texts.size());
  for (const std::string& text : now.telemetry_texts) {
    paths.push_back(fmt::format("{}/telemetry.{}.log", folder, paths.size()));
    std::ofstream(paths.back(), std::ios::binary) << text;
  }
  return folder.empty() ? std::vector<std::string>() : paths;
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
  others.finish();
  if (others.rank() != 0) {
    return 0;
  }
  JobNow all = unpacked(texts);
  const TemporaryFolder folder;
  all.traces.telemetry = telemetry_files(all, folder.path());
  if (all.traces.processes.empty()) {
    return fail(all.limits.empty() ? "no process found on any host" : all.limits.front());
  }
  return supervised([&] { return say(judge(all, {}, options), options); });
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

// A job that is killed as a whole ends rank by rank: one that waits for a dead rank now may be gone
// a moment later.  false: all has ended meanwhile.
bool goes_on(const Job& job, const AttachOptions& options) {
  const auto interval = std::chrono::nanoseconds(options.job.interval);
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kAliveUncertain);
  do {
    std::this_thread::sleep_for(interval);
  } while (job.is_running() && std::chrono::steady_clock::now() < end);
  return job.is_running();
}

// A sidecar starts before its job: until something of it is there.  A PID does not come later.
Result<Job> wait_for_job(const AttachOptions& options) {
  Result<Job> job = Job::find(options.job);
  for (bool told = false; !job && options.job.pids.empty(); job = Job::find(options.job)) {
    if (!told) {
      note("waiting for the job to begin");
      told = true;
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(options.job.interval));
  }
  return job;
}

// It is over: what is recorded says how that came.
int judge_ended(const Job& job, AttachOptions options) {
  note("the job has ended");
  if (options.hang_after.empty()) {
    options.hang_after_ns = kHangAfter;  // it cannot go on any more, as a live one might
  }
  return supervised([&] {
    JobNow now;
    now.traces = job.read();
    // Of processes that nobody recorded nothing is left.
    return now.traces.processes.empty() ? 0 : say(judge(now, job.pids(), options), options);
  });
}

int watch(const AttachOptions& options) {
  WatchMetrics metrics(options.prometheus, options.job, options.hang_after_ns);
  Result<Job> job = wait_for_job(options);
  if (!job) {
    return fail(job.error());
  }
  while (job->is_running()) {
    if (seems_stuck(*job, options.hang_after_ns) && goes_on(*job, options) &&
        seems_stuck(*job, options.hang_after_ns)) {
      metrics.stop();
      return attach_once(*job, options);
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(options.job.interval));
    // Ranks that began since are of the job too.
    Result<Job> again = options.job.pids.empty() ? Job::find(options.job) : job;
    if (again && again->is_running()) {
      job = std::move(again);
    }
  }
  metrics.stop();
  return judge_ended(*job, options);
}

// What --on and --on-hang say; false: it was not understood, as is told.
bool read_hooks(AttachOptions& options) {
  if (!options.on_hang.empty()) {
    options.hooks.push_back({{}, options.on_hang});
  }
  for (const std::string& text : options.on) {
    std::string complaint;
    const std::optional<VerdictHook> hook = parse_hook(text, complaint);
    if (!hook) {
      fail(complaint);
      return false;
    }
    options.hooks.push_back(*hook);
  }
  return true;
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
  take_out_silent(options.job.traces);
  if (options.targets.empty() && !options.job.all) {
    options.job.traces.emplace_back(kDefaultFolder);
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
  if (!silent_inputs().empty() && options.job.traces.empty() && options.job.pids.empty() &&
      !options.job.all) {
    say(silent_inputs().back());
    return fail("what runs can be looked at all the same: attach --all, or PIDs");
  }
  if (!read_hooks(options)) {
    return 2;
  }
  if (Mpi::is_started_by() && options.watch) {
    return fail("--watch watches one host: start it without mpirun or srun");
  }
  if (!options.prometheus.empty() && !options.watch) {
    return fail("--prometheus goes with --watch");
  }
  if (options.watch) {
    return watch(options);
  }
  if (options.targets.empty() && !options.job.all && !Mpi::is_started_by() &&
      access(kDefaultFolder, F_OK) != 0) {
    return fail(no_default_folder());
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
  return attach_once(*job, options);
}

}  // namespace

void declare_attach(CLI::App& command, Invocation& invocation) {
  auto options = std::make_shared<AttachOptions>();
  command.add_option("TARGET", options->targets,
                     "PIDs, or traces of running processes (default: ./traintrace)");
  command.add_flag("--all", options->job.all, "every process of this machine that uses a GPU");
  command.add_flag("--watch", options->watch,
                   "wait until the job begins and hangs, or has ended; then report why");
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
                     "run this shell command if there is an error (with --watch: once the job "
                     "hangs); it gets the findings as JSON on stdin");
  command
      .add_option("--on", options->on,
                  "CODE,..:COMMAND: the same for findings with these codes (collective.*: all "
                  "that begin so)")
      ->type_name("CODE,..:COMMAND");
  command.add_option("--prometheus", options->prometheus,
                     "with --watch: keep what each rank does, and then the verdict, in this file "
                     "(*.prom), for node_exporter");
  command.add_option("--artifacts", options->artifacts,
                     "if there is an error: keep verdict, stacks, traces, telemetry and dumps as "
                     "one tar file in this folder");
  command
      .add_option("--snapshot", options->snapshot,
                  "FOLDER: write the threads of the processes whose traces are in it beside the "
                  "traces, and print "
                  "nothing (used by TRAINTRACE_ON_ABORT=snapshot)")
      ->group("");
  add_format(command, options->format, {"text", "json", "html", "collapsed"});
  command.add_option("-o,--output", options->output, "write the result to this file; - is stdout");
  command.callback([options, &invocation] { invocation.status = attach(*options); });
}

}  // namespace traintrace
