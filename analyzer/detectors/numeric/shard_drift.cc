// Replicas of a shard of the parameters, which give the same to an all-gather or a broadcast within
// their own group of ranks, until one gives something else.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/detectors/numeric/check_finding.h"
#include "analyzer/detectors/numeric/drift_finding.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/text/units.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// What one member of a communicator gave at one place.
struct Given {
  const Check* front = nullptr;
  std::vector<uint64_t> hashes;
  std::vector<const Check*> checks;
};
using GivenBy = std::vector<const Given*>;  // of several communicators

bool is_of_parameters(const Check& check) {
  return (check.operation == format::kCheckedAllGather ||
          check.operation == format::kCheckedBroadcast) &&
         is_real(check.type) && check.count > kFewestElements;
}

std::map<int32_t, Given> given_by_member(const Checks& checks, const CheckedBucket& bucket) {
  std::map<int32_t, Given> by_member;
  for (const size_t number : bucket.operations) {
    const std::span<const Check> inputs =
        side_of(checks_of(checks, checks.operations[number]), format::kCheckedInput);
    for (const Check& check : inputs) {
      if (has_sums(check)) {
        Given& given = by_member[check.member];
        given.front = given.front == nullptr ? &check : given.front;
        given.hashes.push_back(check.tally.hash);
        given.checks.push_back(&check);
      }
    }
  }
  return by_member;
}

// Those whose first data another one had, too: replicas, and not another part of the model.
std::vector<GivenBy> replicas_among(GivenBy all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Given* a, const Given* b) { return a->front->time < b->front->time; });
  std::vector<GivenBy> sets;
  std::map<uint64_t, size_t> set_of;  // by hash
  for (const Given* const given : all) {
    const auto [known, is_new] = set_of.try_emplace(given->hashes.front(), sets.size());
    const size_t number = known->second;
    if (is_new) {
      sets.emplace_back();
    }
    sets[number].push_back(given);
    for (const uint64_t hash : given->hashes) {
      set_of.try_emplace(hash, number);
    }
  }
  return sets;
}

std::optional<Drift> drift_among(const GivenBy& replicas) {
  std::vector<ReplicaSeries> all;
  std::set<Rank> ranks;
  for (const Given* const given : replicas) {
    if (!ranks.insert(given->front->rank).second) {
      return std::nullopt;  // a rank in two such groups: it is no replica of itself
    }
    all.push_back({given->front->rank, given->hashes, {}});
  }
  return drift_of(all);
}

Finding shard_finding(const Run& run, const Checks& checks, const GivenBy& replicas,
                      const Drift& drift) {
  size_t shown = 0;
  Ranks ranks;
  for (size_t i = 0; i < replicas.size(); ++i) {
    shown = drift.odd == replicas[i]->front->rank ? i : shown;
    insert(ranks, replicas[i]->front->rank);
  }
  const Check& check = *replicas[shown]->checks[drift.first[shown]];
  Finding finding = check_finding(run, checks, "numeric.replica-drift", check);
  set_drift(drift, elapsed(run.start, check.time), finding);
  const std::string what = operation_text(run, check);
  finding.title = drift.odd
                      ? fmt::format(
                            "rank {} gives other data to {} than its replicas on the other ranks "
                            "of {} give to theirs; the {} before were the same",
                            drift.odd->value, what, ranks_text(ranks), drift.equal)
                      : fmt::format(
                            "{} no longer give the same data to {} and its like; the {} before "
                            "were the same",
                            ranks_text(ranks), what, drift.equal);
  size_t left = replicas.front()->hashes.size();
  for (size_t i = 0; i < replicas.size(); ++i) {
    const Check& own = *replicas[i]->checks[drift.first[i]];
    finding.evidence.push_back(fmt::format("rank {} gave hash {:016x}, sum {:.9g}, to {}",
                                           own.rank.value, own.tally.hash, own.tally.sum,
                                           operation_text(run, own)));
    left = std::min(left, replicas[i]->hashes.size() - drift.first[i]);
  }
  finding.evidence = cut(std::move(finding.evidence));
  finding.evidence.push_back(differing_line(drift, left));
  finding.advice =
      "look for what is not the same on the replicas: the learning rate, a step that one of them "
      "skipped, gradients that one of them did not reduce; and go back to a checkpoint from before "
      "this step";
  return finding;
}

}  // namespace

std::vector<Finding> find_shard_drift(const Run& run, const Numbers& numbers) {
  using Key =
      std::tuple<decltype(Site().key()), format::CheckedOperation, int16_t, uint64_t, int, int32_t>;
  const Checks& checks = numbers.checks;
  std::vector<std::map<int32_t, Given>> given;  // what the groups point to
  given.reserve(checks.buckets.size());
  std::map<Key, GivenBy> alike;
  for (const CheckedBucket& bucket : checks.buckets) {
    const Check& first = checks.all[checks.operations[bucket.operations.front()].first];
    if (!is_of_parameters(first)) {
      continue;
    }
    const int size = run.communicators[first.communicator].size;
    for (auto& [member, own] : given.emplace_back(given_by_member(checks, bucket))) {
      alike[{checks.sites[own.front->site].key(), first.operation, first.type, first.count, size,
             member}]
          .push_back(&own);
    }
  }
  std::vector<Finding> findings;
  for (const auto& [key, all] : alike) {
    for (const GivenBy& replicas : replicas_among(all)) {
      if (const std::optional<Drift> drift = drift_among(replicas)) {
        findings.push_back(shard_finding(run, checks, replicas, *drift));
      }
    }
  }
  return findings;
}

}  // namespace traintrace
