// A rank that adds nothing to sums to which all others add something.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "analyzer/detectors/check_finding.h"
#include "analyzer/detectors/numeric.h"
#include "analyzer/detectors/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// The only rank whose input is zero; none: there is none, or several.
std::optional<Rank> only_zero(const std::vector<RankTally>& inputs) {
  const auto is_zero = [](const RankTally& input) { return input.tally.is_zero(); };
  const auto found = std::find_if(inputs.begin(), inputs.end(), is_zero);
  return inputs.size() > 1 && std::count_if(inputs.begin(), inputs.end(), is_zero) == 1
             ? std::optional(found->rank)
             : std::nullopt;
}

// The last inputs of a bucket, all of which are zero on that rank alone.
struct ZeroTail {
  const CheckedBucket* bucket;
  Rank rank;
  size_t first;  // in its operations

  size_t length() const { return bucket->operations.size() - first; }
};

std::optional<ZeroTail> zero_tail(const Run& run, const Checks& checks,
                                  const CheckedBucket& bucket) {
  std::optional<ZeroTail> tail;
  for (size_t i = bucket.operations.size(); i-- > 0;) {
    const auto zero =
        only_zero(complete_inputs(run, checks, checks.operations[bucket.operations[i]]));
    if (!zero || (tail && *zero != tail->rank)) {
      break;
    }
    tail = ZeroTail{&bucket, *zero, i};
  }
  return tail && tail->length() >= kFewestZero ? tail : std::nullopt;
}

// Of one communicator.
struct ZeroTails {
  std::vector<ZeroTail> tails;
  size_t buckets = 0;
};

Finding zero_finding(const Run& run, const Checks& checks, const std::vector<ZeroTail>& own,
                     size_t buckets) {
  const ZeroTail& first = own.front();
  const CheckedOperation& operation = checks.operations[first.bucket->operations[first.first]];
  const Check& check = checks.all[operation.first];
  Finding finding = check_finding(run, checks, "numeric.zero-gradient", check);
  finding.certainty = Certainty::kPossible;
  finding.sides = {{first.rank}};
  if (own.size() < buckets) {
    finding.severity = Severity::kInfo;
  }
  finding.title = fmt::format(
      "rank {} gives only zeros to {} of gradients on {}, from {} on, while all other ranks give "
      "something",
      first.rank.value,
      buckets == 1            ? "the sums"
      : own.size() == buckets ? fmt::format("all {} sums", buckets)
                              : fmt::format("{} of {} sums", own.size(), buckets),
      run.communicators[check.communicator].name, operation_text(run, check));
  for (const ZeroTail& tail : own) {
    const auto& operations = tail.bucket->operations;
    finding.evidence.push_back(
        fmt::format("{}: the last {} of {}",
                    bucket_text(run, checks.all[checks.operations[operations.front()].first]),
                    tail.length(), operations.size()));
  }
  finding.evidence = cut(std::move(finding.evidence));
  finding.values = {{"since_ns", elapsed(run.start, operation.time)},
                    {"zero_count", static_cast<int64_t>(first.length())}};
  finding.advice =
      "check the loss of that rank: a mask that covers all of its samples, a detached graph, "
      "parameters that its part of the model does not use";
  return finding;
}

}  // namespace

std::vector<Finding> find_zero_gradients(const Run& run, const Numbers& numbers) {
  const Checks& checks = numbers.checks;
  std::map<uint32_t, ZeroTails> of_communicator;
  for (const CheckedBucket& bucket : checks.buckets) {
    if (!is_of_gradients(checks, bucket)) {
      continue;
    }
    const Check& check = checks.all[checks.operations[bucket.operations.front()].first];
    ZeroTails& tails = of_communicator[check.communicator];
    ++tails.buckets;
    if (const auto tail = zero_tail(run, checks, bucket)) {
      tails.tails.push_back(*tail);
    }
  }
  std::vector<Finding> findings;
  for (const auto& [communicator, all] : of_communicator) {
    std::map<Rank, std::vector<ZeroTail>> of_rank;
    for (const ZeroTail& tail : all.tails) {
      of_rank[tail.rank].push_back(tail);
    }
    for (const auto& [rank, own] : of_rank) {
      findings.push_back(zero_finding(run, checks, own, all.buckets));
    }
  }
  return findings;
}

}  // namespace traintrace
