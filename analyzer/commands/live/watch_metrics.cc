#include "analyzer/commands/live/watch_metrics.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "analyzer/commands/command.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/reader/this_machine.h"
#include "analyzer/text/metrics.h"
#include "analyzer/top/followed_process.h"

namespace traintrace {
namespace {

constexpr double kSecond = 1e-9;  // of ns

struct RankMetric {
  const char* name;  // after traintrace_rank_
  const char* help;
  // Nothing: it is not known of this rank.
  std::function<std::optional<double>(const RankView&, TimeNs now)> value;
};

std::optional<double> seconds_of(int64_t ns) {
  return ns > 0 ? std::optional(kSecond * static_cast<double>(ns)) : std::nullopt;
}

std::optional<double> bytes_of(uint64_t bytes) {
  return bytes > 0 ? std::optional(static_cast<double>(bytes)) : std::nullopt;
}

const std::vector<RankMetric>& rank_metric_list() {
  static const std::vector<RankMetric> list = {
      {"since_collective_seconds", "time since the rank entered its last collective",
       [](const RankView& rank, TimeNs now) {
         return rank.entered == 0
                    ? std::nullopt
                    : std::optional(kSecond * static_cast<double>(elapsed(rank.entered, now)));
       }},
      {"standing_seconds", "time for which the rank has done nothing new; 0 while it moves",
       [](const RankView& rank, TimeNs now) {
         return rank.state == LiveState::kMoving || rank.since == 0
                    ? std::optional(0.0)
                    : std::optional(kSecond * static_cast<double>(elapsed(rank.since, now)));
       }},
      {"lag_seconds", "time behind the median rank at the last collectives, on average",
       [](const RankView& rank, TimeNs /*now*/) {
         return rank.lag_ns ? std::optional(kSecond * static_cast<double>(*rank.lag_ns))
                            : std::nullopt;
       }},
      {"step_seconds", "length of the last whole step",
       [](const RankView& rank, TimeNs /*now*/) { return seconds_of(rank.step_ns); }},
      {"memory_allocated_bytes", "GPU memory that the rank has allocated",
       [](const RankView& rank, TimeNs /*now*/) { return bytes_of(rank.allocated); }},
      {"memory_reserved_bytes", "GPU memory that its allocator holds",
       [](const RankView& rank, TimeNs /*now*/) { return bytes_of(rank.reserved); }},
  };
  return list;
}

std::string labels_of(const RankView& rank, const std::string& run) {
  return fmt::format(R"(run="{}",rank="{}",pid="{}")", label_value(run), rank_list(rank.ranks),
                     rank.pid);
}

// Until the process that started this one has ended.
[[noreturn]] void write_ranks(const std::string& path, const JobOptions& options, TimeNs hang_after,
                              pid_t parent) {
  const std::string host = name_of_this_host();
  std::optional<LiveJob> job;
  bool told = false;
  while (getppid() == parent) {
    if (!job || job->is_outdated()) {
      const Result<Job> found = Job::find(options);
      Result<LiveJob> opened =
          found ? LiveJob::open(found->inputs(), hang_after) : Result<LiveJob>(found.error());
      job.reset();
      if (opened) {
        job.emplace(std::move(*opened));
      }
    }
    std::string problem;
    const std::string text =
        job ? rank_metrics(job->look(TopOrder::kRank), host) : rank_metrics({}, host);
    if (!write_for_prometheus(path, text, problem) && !told) {
      told = true;
      note(problem);
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(options.interval));
  }
  unlink(path.c_str());  // else it would look as if it were of now
  _exit(0);
}

}  // namespace

std::string rank_metrics(const JobView& view, const std::string& host) {
  std::string text =
      head_of_metric("traintrace_watch_running", "gauge", "1 while the job is watched") +
      "traintrace_watch_running 1\n";
  for (const RankMetric& metric : rank_metric_list()) {
    const std::string name = fmt::format("traintrace_rank_{}", metric.name);
    std::set<std::string> seen;  // the same series twice, and nothing of the file is taken
    std::string samples;
    for (const RankView& rank : view.ranks) {
      const auto value = rank.host == host && rank.state != LiveState::kEnded
                             ? metric.value(rank, view.time)
                             : std::nullopt;
      const std::string labels = labels_of(rank, view.run);
      if (value && seen.insert(labels).second) {
        fmt::format_to(std::back_inserter(samples), "{}{{{}}} {:.15g}\n", name, labels, *value);
      }
    }
    text += samples.empty() ? "" : head_of_metric(name, "gauge", metric.help) + samples;
  }
  return text;
}

std::string verdict_metrics(const FindingsReport& report, const std::string& artifact) {
  constexpr const char* kName = "traintrace_verdict";
  std::set<std::string> seen;
  std::string samples;
  for (const Finding& finding : report.findings) {
    if (finding.severity == Severity::kInfo) {
      continue;
    }
    const std::string labels =
        fmt::format(R"(code="{}",severity="{}",culprits="{}",artifact="{}")", finding.code,
                    finding.severity == Severity::kError ? "error" : "warning",
                    label_value(rank_list(finding.culprits)), label_value(artifact));
    if (seen.insert(labels).second) {
      samples += fmt::format("{}{{{}}} 1\n", kName, labels);
    }
  }
  return samples.empty()
             ? ""
             : head_of_metric(kName, "gauge", "what is wrong with the job that was watched") +
                   samples;
}

WatchMetrics::WatchMetrics(std::string path, const JobOptions& options, TimeNs hang_after)
    : path_(std::move(path)) {
  if (path_.empty()) {
    return;
  }
  const pid_t parent = getpid();
  writer_ = fork();
  if (writer_ == 0) {
    write_ranks(path_, options, hang_after, parent);
  }
}

void WatchMetrics::stop() {
  if (writer_ <= 0) {
    return;
  }
  kill(writer_, SIGKILL);
  while (waitpid(writer_, nullptr, 0) < 0 && errno == EINTR) {
  }
  unlink(path_.c_str());
  unlink(fmt::format("{}.{}.tmp", path_, writer_).c_str());
  writer_ = -1;
}

void write_verdict_metrics(const std::string& path, const FindingsReport& report,
                           const std::string& artifact) {
  std::string problem;
  if (!path.empty() && report.has_error() &&
      !write_for_prometheus(path, verdict_metrics(report, artifact), problem)) {
    note(problem);
  }
}

}  // namespace traintrace
