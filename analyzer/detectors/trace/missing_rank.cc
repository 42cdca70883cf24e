// A rank of the world left no trace.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/judge/frontier/frontier.h"
#include "analyzer/model/runs/elsewhere.h"
#include "analyzer/reader/silent_inputs.h"

namespace traintrace {

namespace {

// Of those that are on another host it is known where they are (trace.elsewhere).
Ranks without_trace(const Run& run) {
  Ranks missing = run.missing;
  std::erase_if(missing, [&](Rank rank) { return is_elsewhere(run, rank); });
  const bool all_are_elsewhere =
      std::any_of(run.elsewhere.begin(), run.elsewhere.end(),
                  [](const ElsewhereTrace& trace) { return trace.rank < 0; });
  return all_are_elsewhere && missing.size() <= run.elsewhere.size() ? Ranks() : missing;
}

// Dumps of such ranks that lie here, and are of another time by what their clocks show.
std::set<std::string> dumps_of_another_time(const Run& run) {
  std::set<std::string> ranks;
  for (const ProcessTrace& trace : run.processes) {
    if (const auto fact = trace.facts.find("dumps-of-another-time"); fact != trace.facts.end()) {
      ranks.insert(fact->second);
    }
  }
  return ranks;
}

}  // namespace

std::vector<Finding> find_missing_trace(const Run& run) {
  const Ranks missing = without_trace(run);
  if (missing.empty()) {
    return {};
  }
  Finding finding = trace_finding(run, "trace.missing-rank", &Doubts::missing_traces);
  // Who gives a few of many files asks about these.
  const bool few_given = missing.size() > run.ranks.size() && run.unreadable.empty() &&
                         run.not_begun.empty() && dumps_of_another_time(run).empty();
  finding.title = few_given ? fmt::format("{} of {} ranks {} given; no traces of {} were given",
                                          run.ranks.size(), run.world_size,
                                          run.ranks.size() == 1 ? "is" : "are", ranks_text(missing))
                            : fmt::format("{} of {} {}", ranks_text(missing), run.world_size,
                                          no_trace_text(run, missing));
  finding.values = {{"missing_count", static_cast<int64_t>(missing.size())}};
  std::vector<std::string> lines;
  for (const ReadError& error : run.unreadable) {
    finding.certainty = Certainty::kLikely;
    if (!error.forbidden) {
      lines.push_back(fmt::format(
          "{}, {}, may be of one of them",
          is_silent_file(error.file) ? "a file that does not answer" : "a damaged trace",
          error.file.substr(error.file.rfind('/') + 1)));
    }
  }
  for (const std::string& ranks : dumps_of_another_time(run)) {
    finding.certainty = Certainty::kLikely;
    lines.push_back(fmt::format(
        "dumps of ranks {} of the same groups are there, and of another time: they are of another "
        "run, or the clocks of hosts differ",
        ranks));
  }
  for (const ReadError& error : run.not_begun) {
    lines.push_back(
        fmt::format("{}: {}", error.file.substr(error.file.rfind('/') + 1), error.message));
  }
  const bool any_forbidden = std::any_of(run.unreadable.begin(), run.unreadable.end(),
                                         [](const ReadError& error) { return error.forbidden; });
  if (any_forbidden) {
    lines.emplace_back("traces that you may not read (trace.forbidden) may be of them");
  }
  std::sort(lines.begin(), lines.end());
  finding.evidence = cut(std::move(lines));
  finding.advice = few_given
                       ? "give the files of the other ranks, too; a process writes a trace from "
                         "its first CUDA or NCCL call on: check that these ranks got that far"
                   : knows_order_only(run)
                       ? "a process that ended before its watchdog or another's asked for dumps "
                         "writes none: check whether these did, and that all folders were given"
                       : "a process writes a trace from its first CUDA or NCCL call on: check that "
                         "these ranks got that far, and that all trace folders were given";
  return {finding};
}

}  // namespace traintrace
