#include "analyzer/timeline/what_if/slowdown.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "analyzer/timeline/what_if/stage_job.h"

namespace traintrace {
namespace {

using what_if::kOperationNames;
using what_if::Operation;
using what_if::StageJob;

class WhatIf {
 public:
  explicit WhatIf(const StageJob& job)
      : job_(job),
        own_(job.lengths()),
        usual_(job.usual_lengths()),
        own_s_(job.run(own_)),
        usual_s_(job.run(usual_)) {}

  double own_s() const { return own_s_; }
  double usual_s() const { return usual_s_; }
  using Filter = std::function<bool(const Operation&)>;
  // Only these take as long as they did.
  double with(const Filter& is_own) const { return mixed(usual_, own_, is_own) / usual_s_; }
  // How much of the slowdown goes if these take as long as usual.
  std::optional<double> share_of(const Filter& is_usual) const {
    if (own_s_ <= usual_s_) {
      return std::nullopt;
    }
    return (own_s_ - mixed(own_, usual_, is_usual)) / (own_s_ - usual_s_);
  }

 private:
  double mixed(std::vector<double> lengths, const std::vector<double>& others,
               const Filter& is_other) const {
    for (size_t i = 0; i < lengths.size(); ++i) {
      lengths[i] = is_other(job_.nodes()[i]) ? others[i] : lengths[i];
    }
    return job_.run(lengths);
  }

  const StageJob& job_;
  std::vector<double> own_, usual_;
  double own_s_, usual_s_;
};

void add_parts(const StageJob& job, const WhatIf& study, Slowdown& result) {
  std::vector<double> replicas;
  replicas.reserve(static_cast<size_t>(job.replicas()));
  for (int replica = 0; replica < job.replicas(); ++replica) {
    replicas.push_back(study.with([&](const Operation& node) { return node.replica == replica; }));
  }
  for (int stage = 0; stage < job.stages(); ++stage) {
    result.stages.push_back(
        {stage, study.with([&](const Operation& node) { return node.stage == stage; })});
  }
  std::set<std::tuple<int, int, int>> workers;
  for (const Operation& node : job.nodes()) {
    workers.insert({node.rank, node.replica, node.stage});
  }
  for (const auto& [rank, replica, stage] : workers) {
    result.ranks.push_back({rank, std::min(replicas[static_cast<size_t>(replica)],
                                           result.stages[static_cast<size_t>(stage)].slowdown)});
  }
  for (size_t kind = 0; kind < kOperationNames.size(); ++kind) {
    const auto is_of = [&](const Operation& node) {
      return static_cast<size_t>(node.kind) == kind;
    };
    if (std::any_of(job.nodes().begin(), job.nodes().end(), is_of)) {
      result.operations.emplace_back(kOperationNames[kind], study.with(is_of));
    }
  }
  const auto slower = [](const auto& a, const auto& b) { return a.slowdown > b.slowdown; };
  std::stable_sort(result.ranks.begin(), result.ranks.end(), slower);
  std::stable_sort(result.stages.begin(), result.stages.end(), slower);
  std::stable_sort(result.operations.begin(), result.operations.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
}

// Empty: it is not.
std::string why_too_large(const StageJob& job) {
  constexpr uint64_t kMostReplayed = 2'000'000'000;
  constexpr uint64_t kFewPlaces = 1'000'000;
  const uint64_t operations = job.nodes().size();
  const auto replays = static_cast<uint64_t>(job.stages()) + static_cast<uint64_t>(job.replicas());
  if (operations > kMostReplayed / replays) {
    return "expected fewer operations: all " + std::to_string(operations) +
           " are replayed once for each stage and each replica, " + std::to_string(replays) +
           " times, and " + std::to_string(kMostReplayed) + " in all are too many";
  }
  if (job.steps() * job.workers() > std::max(kFewPlaces, 2 * operations)) {
    return "expected operations of each rank in each step: most have none";
  }
  return "";
}

}  // namespace

Slowdown slowdown_of(const std::vector<StageOperation>& operations, std::string& why_not) {
  Slowdown result;
  StageJob job;
  if (operations.empty() || !job.add(operations, why_not)) {
    return result;
  }
  why_not = why_too_large(job);
  if (!why_not.empty()) {
    return result;
  }
  job.join();
  const WhatIf study(job);
  if (study.own_s() <= 0 || study.usual_s() <= 0) {
    why_not =
        "operations wait for each other in a cycle: their order in time contradicts the "
        "schedule of a pipeline";
    return result;
  }
  result.recorded_s = job.recorded_s();
  result.replayed_s = study.own_s();
  result.ideal_s = study.usual_s();
  result.job = result.replayed_s / result.ideal_s;
  result.steps = job.steps();
  result.workers = job.workers();
  add_parts(job, study, result);
  constexpr size_t kSlowest = 3;  // of 100 ranks
  std::set<int> slowest;
  for (size_t i = 0; i < (result.ranks.size() * kSlowest + 99) / 100; ++i) {
    slowest.insert(result.ranks[i].number);
  }
  result.by_ranks =
      study.share_of([&](const Operation& node) { return slowest.contains(node.rank); });
  result.by_last_stage =
      study.share_of([&](const Operation& node) { return node.stage == job.stages() - 1; });
  return result;
}

}  // namespace traintrace
