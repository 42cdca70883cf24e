// Records were lost while the job ran, counted by the tracer (format/stats.def).
#include <fmt/format.h>

#include <map>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "format/stat_meaning.h"

namespace traintrace {

std::vector<Finding> find_lost_records(const Run& run) {
  std::map<std::string, std::pair<uint64_t, Ranks>> lost;
  uint64_t total = 0;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    for (const LossText& loss : run.processes[i].losses) {
      // What is only information is so for other reasons, but for this: old records are gone.
      if (loss.count > 0 && (loss.severity == "warning" || loss.stat == "ring-overwritten")) {
        auto& [count, ranks] = lost[loss.stat];
        count += loss.count;
        total += loss.count;
        for (const Rank rank : ranks_of_process(run, i)) {
          insert(ranks, rank);
        }
      }
    }
  }
  if (lost.empty()) {
    return {};
  }
  Finding finding = trace_finding(run, "trace.lost-records", &Doubts::lost_records);
  Ranks all;
  for (const auto& [stat, what] : lost) {
    finding.evidence.push_back(fmt::format("{}: {} on {} ({})", format::meaning_of_stat(stat),
                                           what.first, ranks_text(what.second), stat));
    for (const Rank rank : what.second) {
      insert(all, rank);
    }
  }
  finding.title = fmt::format("records of {} were lost", ranks_text(all));
  finding.values = {{"lost_count", static_cast<int64_t>(total)}};
  return {finding};
}

}  // namespace traintrace
