// Two ranks that train on the same data, where other ranks have data of their own.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/numeric.h"
#include "analyzer/detectors/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/numbers/batches.h"
#include "analyzer/text/units.h"

namespace traintrace {
namespace {

Ranks members_of(const Communicator& communicator) {
  Ranks ranks = communicator.absent;
  for (const Member& member : communicator.members) {
    insert(ranks, member.rank);
  }
  return ranks;
}

bool lie_in(const Ranks& some, const Ranks& all) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

Ranks ranks_of(const PlaceBatches& all) {
  Ranks ranks;
  for (const BatchSeries* const series : all) {
    insert(ranks, series->rank);
  }
  return ranks;
}

// Whether every communicator is of all these ranks: tensor parallelism over all of them, or data
// parallelism whose sampler gives all the same.
bool have_no_groups(const Run& run, const Ranks& ranks) {
  return std::all_of(
      run.communicators.begin(), run.communicators.end(), [&](const Communicator& communicator) {
        return members_of(communicator).size() <= 1 || lie_in(ranks, members_of(communicator));
      });
}

Finding same_finding(const Run& run, const SameBatches& same) {
  Finding finding = numeric_finding("numeric.same-data");
  const BatchSeries& series = *same.series;
  finding.certainty = Certainty::kPossible;
  finding.sides = {same.ranks};
  if (series.place) {
    finding.where.push_back(*series.place);
  }
  finding.values = {{"same_count", static_cast<int64_t>(same.count)},
                    {"batch_bytes", static_cast<int64_t>(
                                        std::min<uint64_t>(series.sizes[same.first], INT64_MAX))}};
  finding.evidence = {fmt::format(
      "rank {}: {} of {} batches, from +{} to +{}, are those of {}", series.rank.value, same.count,
      series.hashes.size(), duration_text(elapsed(run.start, series.times[same.first])),
      duration_text(elapsed(run.start, series.times[same.last])), ranks_text(same.ranks))};
  finding.title = fmt::format("{} send the same batches to their GPUs at {}: {} changing ones",
                              ranks_text(same.ranks), place_text(series), same.count);
  return finding;
}

Finding of_some(const Run& run, const SameBatches& same) {
  Finding finding = same_finding(run, same);
  finding.title += "; other ranks send their own";
  finding.advice =
      "see that the sampler is given each rank's own number (DistributedSampler's rank and "
      "num_replicas) and that ranks do not share a random seed where they should not";
  return finding;
}

Finding of_all(const Run& run, const SameBatches& same) {
  Finding finding = same_finding(run, same);
  finding.severity = Severity::kInfo;
  finding.advice =
      "right with tensor parallelism over all ranks; with data parallelism, give each rank's "
      "sampler its own number";
  return finding;
}

}  // namespace

bool have_group(const Run& run, const Ranks& ranks) {
  return std::any_of(run.communicators.begin(), run.communicators.end(),
                     [&](const Communicator& communicator) {
                       const Ranks members = members_of(communicator);
                       return members.size() > 1 && lie_in(members, ranks);
                     });
}

std::vector<Finding> find_same_data(const Run& run, const Numbers& numbers) {
  std::vector<Finding> findings;
  for (const PlaceBatches& all : batches_by_place(numbers)) {
    for (const SameBatches& same : same_batches(all, numbers)) {
      const bool are_all = same.ranks.size() == ranks_of(all).size();
      if (!are_all && !have_group(run, same.ranks)) {
        findings.push_back(of_some(run, same));
        break;  // further sets are parts of this one
      }
      if (are_all && same.ranks.size() == run.ranks.size() && have_no_groups(run, same.ranks)) {
        findings.push_back(of_all(run, same));
        break;
      }
    }
  }
  return findings;
}

}  // namespace traintrace
