// Ranks that give the same gradients to a sum, while those of other ranks differ: they have
// computed the same.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "analyzer/detectors/numeric/check_finding.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

using EqualInputs = std::map<Ranks, uint64_t>;  // with their hash

// Sets of ranks, of two and more.
EqualInputs equal_inputs(const std::vector<RankTally>& inputs) {
  std::map<uint64_t, Ranks> by_hash;
  for (const RankTally& input : inputs) {
    if (!input.tally.is_zero()) {
      insert(by_hash[input.tally.hash], input.rank);
    }
  }
  EqualInputs equal;
  for (const auto& [hash, ranks] : by_hash) {
    if (ranks.size() > 1) {
      equal.emplace(ranks, hash);
    }
  }
  return equal;
}

struct EqualRow {
  size_t length = 0;
  uint64_t hash = 0;
  const CheckedOperation* first = nullptr;
  const CheckedOperation* last = nullptr;
};

// The longest row of changing inputs that are equal, by ranks.
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
      EqualRow row = goes_on ? before->second : EqualRow{0, 0, &operation, nullptr};
      row.hash = hash;
      row.last = &operation;
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

// Whether these ranks' inputs of the bucket are equal all the while; none: it does not occur then.
// DDP's first step has other buckets than all steps after it, which therefore tell nothing of
// these.
std::optional<bool> are_equal_meanwhile(const Run& run, const Checks& checks,
                                        const CheckedBucket& bucket, const Ranks& ranks,
                                        const EqualRow& row) {
  std::optional<bool> equal;
  for (const size_t number : bucket.operations) {
    const CheckedOperation& operation = checks.operations[number];
    if (operation.time < row.first->time || operation.time > row.last->time) {
      continue;
    }
    std::set<uint64_t> hashes;
    for (const RankTally& input : complete_inputs(run, checks, operation)) {
      if (contains(ranks, input.rank)) {
        hashes.insert(input.tally.hash);
      }
    }
    equal = equal.value_or(true) && hashes.size() <= 1;
  }
  return equal;
}

// Of one communicator.
struct EqualGradients {
  Ranks ranks;
  EqualRow row;         // the longest of its buckets
  size_t buckets = 0;   // that occur meanwhile
  bool of_all = false;  // members
};

Ranks others_of(const Communicator& communicator, const Ranks& ranks) {
  Ranks others;
  for (const Member& member : communicator.members) {
    if (!contains(ranks, member.rank)) {
      insert(others, member.rank);
    }
  }
  return others;
}

using Buckets = std::vector<const CheckedBucket*>;

// Those that are equal in all buckets: of replicated layers only, it is tensor parallelism.
std::vector<EqualGradients> equal_gradients(const Run& run, const Checks& checks,
                                            const Communicator& communicator,
                                            const Buckets& buckets) {
  std::map<Ranks, EqualRow> rows;
  for (const CheckedBucket* const bucket : buckets) {
    for (const auto& [ranks, row] : equal_rows(run, checks, *bucket)) {
      EqualRow& longest = rows[ranks];
      longest = row.length > longest.length ? row : longest;
    }
  }
  std::vector<EqualGradients> found;
  for (const auto& [ranks, row] : rows) {
    EqualGradients equal{ranks, row, 0, static_cast<int>(ranks.size()) == communicator.size};
    bool in_all = row.length >= kFewestEqual;
    for (const CheckedBucket* const bucket : buckets) {
      const auto meanwhile =
          in_all ? are_equal_meanwhile(run, checks, *bucket, ranks, row) : std::nullopt;
      in_all = in_all && meanwhile.value_or(true);
      equal.buckets += meanwhile ? 1 : 0;
    }
    if (in_all) {
      found.push_back(std::move(equal));
    }
  }
  return found;
}

Finding equal_finding(const Run& run, const Checks& checks, const EqualGradients& equal) {
  const Check& check = checks.all[equal.row.first->first];
  Finding finding = check_finding(run, checks, "numeric.same-data", check);
  finding.sides = {equal.ranks};
  finding.title = fmt::format("{} give the same numbers to {} and {} that follow, {} in a row",
                              ranks_text(equal.ranks), operation_text(run, check),
                              equal.row.length - 1, equal.row.length);
  if (equal.buckets > 1) {
    finding.evidence = {fmt::format("the same holds for all {} sorts of sums on {}", equal.buckets,
                                    short_label_of(run, run.communicators[check.communicator]))};
  }
  finding.values = {{"since_ns", elapsed(run.start, equal.row.first->time)},
                    {"same_count", static_cast<int64_t>(equal.row.length)}};
  return finding;
}

Finding of_some_ranks(const Run& run, const Checks& checks, const EqualGradients& equal) {
  Finding finding = equal_finding(run, checks, equal);
  finding.certainty = Certainty::kLikely;
  finding.title += ", while other ranks give their own: they train on the same data";
  finding.advice =
      "see that the sampler is given each rank's own number (DistributedSampler's rank and "
      "num_replicas) and that ranks do not share a random seed where they should not";
  return finding;
}

// `all`: communicators of which all members give the same.
Finding of_all_ranks(const Run& run, const Checks& checks, const std::vector<EqualGradients>& all) {
  Finding finding = equal_finding(run, checks, all.front());
  finding.severity = Severity::kInfo;
  finding.certainty = Certainty::kPossible;
  for (const EqualGradients& equal : std::span(all).subspan(1)) {
    finding.sides.push_back(equal.ranks);
    const Finding further = equal_finding(run, checks, equal);
    finding.evidence.push_back(further.title);
  }
  finding.evidence = cut(std::move(finding.evidence));
  finding.title += ": they compute the same, so adding it up changes nothing";
  finding.advice =
      "with data parallelism, give each rank's sampler its own number; right if all are meant to "
      "have the same data, as made-up data in a measurement of speed";
  return finding;
}

}  // namespace

std::vector<Finding> find_same_gradients(const Run& run, const Numbers& numbers) {
  const Checks& checks = numbers.checks;
  std::vector<Finding> findings;
  std::vector<EqualGradients> of_all;
  for (const auto& [number, buckets] : gradient_buckets(checks)) {
    const Communicator& communicator = run.communicators[number];
    for (EqualGradients& equal : equal_gradients(run, checks, communicator, buckets)) {
      if (equal.of_all) {
        of_all.push_back(std::move(equal));
      } else if (!may_share_data(run, equal.ranks, others_of(communicator, equal.ranks))) {
        findings.push_back(of_some_ranks(run, checks, equal));
      }
    }
  }
  if (!of_all.empty()) {
    std::sort(of_all.begin(), of_all.end(),
              [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
    findings.push_back(of_all_ranks(run, checks, of_all));
  }
  return findings;
}

}  // namespace traintrace
