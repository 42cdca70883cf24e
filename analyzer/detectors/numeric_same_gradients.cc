// Ranks that give the same gradients to a sum, while those of other ranks differ: they have
// computed the same.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "analyzer/detectors/check_finding.h"
#include "analyzer/detectors/numeric.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

using EqualInputs = std::map<Ranks, uint64_t>;  // with their hash

// Sets of ranks, of two and more and not of all.
EqualInputs equal_inputs(const std::vector<RankTally>& inputs) {
  std::map<uint64_t, Ranks> by_hash;
  for (const RankTally& input : inputs) {
    if (!input.tally.is_zero()) {
      insert(by_hash[input.tally.hash], input.rank);
    }
  }
  EqualInputs equal;
  for (const auto& [hash, ranks] : by_hash) {
    if (ranks.size() > 1 && ranks.size() < inputs.size()) {
      equal.emplace(ranks, hash);
    }
  }
  return equal;
}

struct EqualRow {
  size_t length = 0;
  uint64_t hash = 0;
  const CheckedOperation* first = nullptr;
};

// The longest row of changing inputs that are equal, by ranks; `since` of the first in it.
std::map<Ranks, EqualRow> equal_rows(const Run& run, const Checks& checks,
                                     const CheckedBucket& bucket) {
  std::map<Ranks, EqualRow> open;
  std::map<Ranks, EqualRow> longest;
  for (const size_t number : bucket.operations) {
    const CheckedOperation& operation = checks.operations[number];
    std::map<Ranks, EqualRow> next;
    for (const auto& [ranks, hash] : equal_inputs(complete_inputs(run, checks, operation))) {
      const auto before = open.find(ranks);
      const bool goes_on = before != open.end() && before->second.hash != hash;
      EqualRow row = goes_on ? before->second : EqualRow{0, 0, &operation};
      row.hash = hash;
      ++row.length;
      next.emplace(ranks, row);
      if (row.length > longest[ranks].length) {
        longest[ranks] = row;
      }
    }
    open = std::move(next);
  }
  return longest;
}

// Of one communicator.
struct EqualRanks {
  std::map<Ranks, std::vector<EqualRow>> rows;  // of its buckets
  size_t buckets = 0;
};

Finding equal_finding(const Run& run, const Checks& checks, const Ranks& ranks,
                      const std::vector<EqualRow>& rows) {
  const EqualRow& first = rows.front();
  const Check& check = checks.all[first.first->first];
  Finding finding = check_finding(run, checks, "numeric.same-data", check);
  finding.certainty = Certainty::kLikely;
  finding.sides = {ranks};
  finding.title = fmt::format(
      "{} give the same numbers to {} and {} that follow, {} in a row, while other ranks give "
      "their own: they train on the same data",
      ranks_text(ranks), operation_text(run, check), first.length - 1, first.length);
  finding.evidence = {fmt::format("the same holds for all {} sorts of sums on {}", rows.size(),
                                  run.communicators[check.communicator].name)};
  finding.values = {{"since_ns", elapsed(run.start, first.first->time)},
                    {"same_count", static_cast<int64_t>(first.length)}};
  finding.advice =
      "see that the sampler is given each rank's own number (DistributedSampler's rank and "
      "num_replicas) and that ranks do not share a random seed where they should not";
  return finding;
}

}  // namespace

std::vector<Finding> find_same_gradients(const Run& run, const Numbers& numbers) {
  const Checks& checks = numbers.checks;
  std::map<uint32_t, EqualRanks> of_communicator;
  for (const CheckedBucket& bucket : checks.buckets) {
    if (!is_of_gradients(checks, bucket)) {
      continue;
    }
    EqualRanks& equal =
        of_communicator[checks.all[checks.operations[bucket.operations.front()].first]
                            .communicator];
    ++equal.buckets;
    for (const auto& [ranks, row] : equal_rows(run, checks, bucket)) {
      if (row.length >= kFewestEqual) {
        equal.rows[ranks].push_back(row);
      }
    }
  }
  std::vector<Finding> findings;
  for (const auto& [communicator, equal] : of_communicator) {
    for (const auto& [ranks, rows] : equal.rows) {
      // Of replicated layers only, it is tensor parallelism.
      if (rows.size() == equal.buckets && !have_group(run, ranks)) {
        findings.push_back(equal_finding(run, checks, ranks, rows));
      }
    }
  }
  return findings;
}

}  // namespace traintrace
