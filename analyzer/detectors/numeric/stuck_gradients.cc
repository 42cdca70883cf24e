// A rank that gives the same numbers to a sum again and again, while those of all other ranks
// change: what it should have computed anew it did not.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "analyzer/detectors/numeric/check_finding.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

using Inputs = std::vector<RankTally>;  // by member

bool is_same(const RankTally& input, const RankTally& before) {
  return input.rank == before.rank && input.tally.hash == before.tally.hash &&
         input.tally.nonfinite() == 0 && !input.tally.is_zero();
}

// The only rank that gives what it gave before; none: all give something new, or several do not.
std::optional<Rank> only_same(const Inputs& inputs, const Inputs& before) {
  std::optional<Rank> only;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].tally.hash != before[i].tally.hash) {
      continue;
    }
    if (only || !is_same(inputs[i], before[i])) {
      return std::nullopt;
    }
    only = inputs[i].rank;
  }
  return only;
}

// The last inputs of a bucket: one rank's are the same, all others' change.  Before that all did.
struct StuckTail {
  const CheckedBucket* bucket = nullptr;
  Rank rank;
  size_t first = 0;  // in its operations: the first one that was given again and again

  size_t length() const { return bucket->operations.size() - first; }
};

std::optional<StuckTail> stuck_tail(const Run& run, const Checks& checks,
                                    const CheckedBucket& bucket) {
  const std::vector<size_t>& operations = bucket.operations;
  std::optional<StuckTail> tail;
  Inputs later;
  size_t changes = 0;
  for (size_t i = operations.size(); i-- > 0;) {
    Inputs inputs = complete_inputs(run, checks, checks.operations[operations[i]]);
    if (inputs.size() < 2) {
      return std::nullopt;
    }
    if (!later.empty()) {
      const auto same = only_same(later, inputs);
      if (same && changes == 0 && (!tail || *same == tail->rank)) {
        tail = StuckTail{&bucket, *same, i};
      } else if (same || !tail || std::any_of(inputs.begin(), inputs.end(), [&](const auto& input) {
                   const RankTally& next = later[static_cast<size_t>(&input - inputs.data())];
                   return input.tally.hash == next.tally.hash;
                 })) {
        return std::nullopt;  // what repeats now and then is not computed anew in each step
      } else if (++changes == kFewestStuck) {
        break;
      }
    }
    later = std::move(inputs);
  }
  return tail && changes == kFewestStuck && tail->length() >= kFewestStuck ? tail : std::nullopt;
}

// Whether the rank gives something new to another bucket meanwhile: then its step is not stuck.
bool gives_new(const Run& run, const Checks& checks, const CheckedBucket& bucket, Rank rank,
               TimeNs since) {
  std::optional<uint64_t> hash;
  for (const size_t number : bucket.operations) {
    const CheckedOperation& operation = checks.operations[number];
    if (operation.time < since) {
      continue;
    }
    for (const RankTally& input : complete_inputs(run, checks, operation)) {
      if (input.rank == rank) {
        if (hash && *hash != input.tally.hash) {
          return true;
        }
        hash = input.tally.hash;
      }
    }
  }
  return false;
}

Finding stuck_finding(const Run& run, const Checks& checks, const StuckTail& tail) {
  const std::vector<size_t>& operations = tail.bucket->operations;
  const CheckedOperation& operation = checks.operations[operations[tail.first]];
  const Check& check = checks.all[operation.first];
  Finding finding = check_finding(run, checks, "numeric.stuck-input", check);
  finding.certainty = Certainty::kLikely;
  finding.culprits = {tail.rank};
  finding.sides = {{tail.rank}};
  finding.where = places_of(checks, operation, finding.sides.front());
  finding.title = fmt::format(
      "rank {} gives the same numbers to {} and the {} that follow, while what the other ranks "
      "give changes each time",
      tail.rank.value, operation_text(run, check), tail.length() - 1);
  finding.evidence = {
      fmt::format("{}: bit for bit the same the last {} times of {}", bucket_text(run, check),
                  tail.length(), operations.size()),
      "sums change the weights, and so the gradients, even of one batch: what it gives was not "
      "computed anew"};
  finding.values = {{"since_ns", elapsed(run.start, operation.time)},
                    {"stuck_count", static_cast<int64_t>(tail.length())}};
  finding.advice =
      "see what that rank did since instead of its backward pass: an exception that is swallowed, "
      "a batch that is skipped, a buffer that is not filled again, a stream that is not waited for";
  return finding;
}

}  // namespace

std::vector<Finding> find_stuck_gradients(const Run& run, const Numbers& numbers) {
  const Checks& checks = numbers.checks;
  std::vector<Finding> findings;
  for (const auto& [communicator, buckets] : gradient_buckets(checks)) {
    std::optional<StuckTail> longest;
    for (const CheckedBucket* const bucket : buckets) {
      const auto tail = stuck_tail(run, checks, *bucket);
      if (tail && (!longest || tail->length() > longest->length())) {
        longest = tail;
      }
    }
    if (!longest) {
      continue;
    }
    const TimeNs since = checks.operations[longest->bucket->operations[longest->first]].time;
    if (std::none_of(buckets.begin(), buckets.end(), [&](const CheckedBucket* bucket) {
          return gives_new(run, checks, *bucket, longest->rank, since);
        })) {
      findings.push_back(stuck_finding(run, checks, *longest));
    }
  }
  return findings;
}

}  // namespace traintrace
