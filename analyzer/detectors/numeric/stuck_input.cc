// A rank that is given the same batch again and again, while those of others change.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/numbers/batches.h"
#include "analyzer/text/units.h"

namespace traintrace {
namespace {

Finding stuck_finding(const Run& run, const StuckBatches& stuck) {
  Finding finding = numeric_finding("numeric.stuck-input");
  const BatchSeries& series = *stuck.series;
  const size_t count = series.hashes.size() - stuck.first;
  const std::string since = duration_text(elapsed(run.start, series.times[stuck.first]));
  if (series.place) {
    finding.where.push_back(*series.place);
  }
  finding.values = {{"stuck_count", static_cast<int64_t>(count / stuck.distinct)},
                    {"batch_bytes", static_cast<int64_t>(
                                        std::min<uint64_t>(series.sizes[stuck.first], INT64_MAX))},
                    {"since_ns", elapsed(run.start, series.times[stuck.first])}};
  const std::string same = fmt::format(
      "rank {} sends the same batch to its GPU again and again since +{}, at {}: {} times",
      series.rank.value, since, place_text(series), count / stuck.distinct);
  finding.evidence = {
      fmt::format("rank {}: its {} batches before changed", series.rank.value, stuck.first)};
  if (stuck.still_changing != nullptr) {
    finding.severity = Severity::kInfo;
    finding.certainty = Certainty::kPossible;
    finding.sides = {{series.rank}};
    finding.title = fmt::format(
        "{}, while what it sends from {} changes, and the other ranks' "
        "batches do",
        same, place_text(*stuck.still_changing));
    finding.advice =
        "if this is data that the step reads, check who fills that buffer; a computed "
        "tensor may be the same rightly";
    return finding;
  }
  finding.culprits = {series.rank};
  finding.title = same + ", while the other ranks' batches change";
  finding.advice = "see what that rank's data loader returns when it has no more data or failed";
  return finding;
}

}  // namespace

std::vector<Finding> find_stuck_input(const Run& run, const Numbers& numbers) {
  std::vector<Finding> findings;
  for (const PlaceBatches& all : batches_by_place(numbers)) {
    for (const StuckBatches& stuck : stuck_batches(all, numbers)) {
      findings.push_back(stuck_finding(run, stuck));
    }
  }
  return findings;
}

}  // namespace traintrace
