// A rank that adds nothing to sums to which all others add something.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "analyzer/detectors/numeric/check_finding.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/numbers/batches.h"
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

// All of one rank on one communicator.
struct ZeroTails {
  std::vector<ZeroTail> tails;
  ZeroTail latest;            // to begin; from there on all of them are zero
  size_t zero = 0, used = 0;  // buckets that occur from there on: with zeros only, and all of them
  TimeNs since = 0, until = 0;  // of `latest`, as the rank called them
};

TimeNs time_of(const Checks& checks, const CheckedBucket& bucket, size_t operation) {
  return checks.operations[bucket.operations[operation]].time;
}

TimeNs time_on(const Checks& checks, const CheckedOperation& operation, Rank rank) {
  const std::span<const Check> all = checks_of(checks, operation);
  const auto own =
      std::find_if(all.begin(), all.end(), [&](const Check& check) { return check.rank == rank; });
  return own == all.end() ? operation.time : own->time;
}

// Whether that rank's inputs of the bucket from `since` on are zero; none: it does not occur there.
// DDP's first step has other buckets than all steps after it, which therefore tell nothing of
// these.
std::optional<bool> is_zero_since(const Run& run, const Checks& checks, const CheckedBucket& bucket,
                                  Rank rank, TimeNs since) {
  std::optional<bool> zero;
  for (size_t i = bucket.operations.size(); i-- > 0 && time_of(checks, bucket, i) >= since;) {
    const auto inputs = complete_inputs(run, checks, checks.operations[bucket.operations[i]]);
    zero = zero.value_or(true) && std::all_of(inputs.begin(), inputs.end(), [&](const auto& input) {
             return input.rank != rank || input.tally.is_zero();
           });
  }
  return zero;
}

ZeroTails zero_tails(const Run& run, const Checks& checks, std::vector<ZeroTail> tails,
                     const std::vector<const CheckedBucket*>& buckets) {
  const auto begin_of = [&](const ZeroTail& tail) {
    return time_of(checks, *tail.bucket, tail.first);
  };
  ZeroTails all{std::move(tails), {}};
  all.latest =
      *std::max_element(all.tails.begin(), all.tails.end(),
                        [&](const auto& a, const auto& b) { return begin_of(a) < begin_of(b); });
  for (const CheckedBucket* const bucket : buckets) {
    const auto zero = is_zero_since(run, checks, *bucket, all.latest.rank, begin_of(all.latest));
    all.used += zero ? 1 : 0;
    all.zero += zero.value_or(false) ? 1 : 0;
  }
  const std::vector<size_t>& operations = all.latest.bucket->operations;
  all.since = time_on(checks, checks.operations[operations[all.latest.first]], all.latest.rank);
  all.until = time_on(checks, checks.operations[operations.back()], all.latest.rank);
  return all;
}

bool sends_new(const BatchSeries& series, TimeNs since, TimeNs until) {
  const std::vector<size_t> changing = changing_batches(series);
  return std::any_of(changing.begin(), changing.end(), [&](size_t index) {
    return series.times[index] >= since && series.times[index] <= until;
  });
}

// Whether the rank has sent batches before, as the others still do, and sends none meanwhile: its
// part of the data is used up, and it takes part with zeros so that the others can go on.
bool has_no_data(const Numbers& numbers, const ZeroTails& all) {
  const Rank rank = all.latest.rank;
  bool ended = false;
  for (const PlaceBatches& place : batches_by_place(numbers)) {
    const auto own = std::find_if(place.begin(), place.end(),
                                  [&](const BatchSeries* series) { return series->rank == rank; });
    if (own == place.end()) {
      continue;
    }
    const bool sends_any =
        std::any_of((*own)->times.begin(), (*own)->times.end(),
                    [&](TimeNs time) { return time >= all.since && time <= all.until; });
    if (sends_any) {
      return false;
    }
    const bool others_go_on = std::all_of(place.begin(), place.end(), [&](const auto* series) {
      return series->rank == rank || sends_new(*series, all.since, all.until);
    });
    ended = ended ||
            (place.size() > 1 && others_go_on && changing_batches(**own).size() >= kFewestSame);
  }
  return ended;
}

// Of two ranks, one that has never given anything to an all-reduce that its own code calls: adding
// up is one way to pass on what the other one has.  Autograd has no Python code of its own.
bool may_be_broadcast(const Run& run, const Checks& checks, const ZeroTails& all) {
  return std::all_of(all.tails.begin(), all.tails.end(), [&](const ZeroTail& tail) {
    const Check& check = checks.all[checks.operations[tail.bucket->operations.front()].first];
    return tail.first == 0 && check.operation == format::kCheckedAllReduce &&
           run.communicators[check.communicator].size == 2 &&
           !checks.sites[check.site].frames.empty();
  });
}

Finding zero_finding(const Run& run, const Numbers& numbers, const ZeroTails& all) {
  const Checks& checks = numbers.checks;
  const ZeroTail& latest = all.latest;
  const CheckedOperation& operation = checks.operations[latest.bucket->operations[latest.first]];
  const Check& check = checks.all[operation.first];
  Finding finding = check_finding(run, checks, "numeric.zero-gradient", check);
  const bool no_data = has_no_data(numbers, all);
  finding.certainty = Certainty::kPossible;
  finding.sides = {{latest.rank}};
  finding.where = places_of(checks, operation, finding.sides.front());
  const bool broadcast = !no_data && may_be_broadcast(run, checks, all);
  if (all.zero < all.used || no_data || broadcast) {
    finding.severity = Severity::kInfo;
  }
  finding.title = fmt::format(
      "rank {} gives only zeros to {} of gradients on {}, from {} on, while all other ranks give "
      "something{}",
      latest.rank.value,
      all.used == 1          ? "the sums"
      : all.zero == all.used ? fmt::format("all {} sums", all.used)
                             : fmt::format("{} of {} sums", all.zero, all.used),
      short_label_of(run, run.communicators[check.communicator]), operation_text(run, check),
      no_data     ? ": it sends no more batches to its GPU, its part of the data is used up"
      : broadcast ? ", from the first one on: this may be how the other rank passes its data on"
                  : "");
  for (const ZeroTail& tail : all.tails) {
    const auto& operations = tail.bucket->operations;
    finding.evidence.push_back(
        fmt::format("{}: the last {} of {}",
                    bucket_text(run, checks.all[checks.operations[operations.front()].first]),
                    tail.length(), operations.size()));
  }
  finding.evidence = cut(std::move(finding.evidence));
  finding.values = {{"since_ns", elapsed(run.start, operation.time)},
                    {"zero_count", static_cast<int64_t>(latest.length())}};
  finding.advice =
      no_data ? "right with uneven data, as in PyTorch's Join; divide the data evenly if every "
                "step should be of all ranks"
              : "check the loss of that rank: a mask that covers all of its samples, a detached "
                "graph, parameters that its part of the model does not use";
  return finding;
}

}  // namespace

std::vector<Finding> find_zero_gradients(const Run& run, const Numbers& numbers) {
  const Checks& checks = numbers.checks;
  std::vector<Finding> findings;
  for (const auto& [communicator, buckets] : gradient_buckets(checks)) {
    std::map<Rank, std::vector<ZeroTail>> of_rank;
    for (const CheckedBucket* const bucket : buckets) {
      if (const auto tail = zero_tail(run, checks, *bucket)) {
        of_rank[tail->rank].push_back(*tail);
      }
    }
    for (auto& [rank, tails] : of_rank) {
      findings.push_back(
          zero_finding(run, numbers, zero_tails(run, checks, std::move(tails), buckets)));
    }
  }
  return findings;
}

}  // namespace traintrace
