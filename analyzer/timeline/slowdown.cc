#include "analyzer/timeline/slowdown.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <tuple>

namespace traintrace {
namespace {

enum class OperationKind : uint8_t {
  kForward,
  kBackward,
  kForwardSend,
  kForwardReceive,
  kBackwardSend,
  kBackwardReceive,
  kParameters,
  kGradients,
  kNorms,
  kEmbeddings,
  kSeparate,
  kClip,
  kOptimizer,
  kGarbage,
};
constexpr std::array<std::string_view, 14> kOperationNames = {"forward-compute",
                                                              "backward-compute",
                                                              "forward-send",
                                                              "forward-recv",
                                                              "backward-send",
                                                              "backward-recv",
                                                              "params-all-gather",
                                                              "grads-reduce-scatter",
                                                              "layernorm-grads-all-reduce",
                                                              "embedding-grads-all-reduce",
                                                              "separate-grads-all-reduce",
                                                              "optimizer-clip-main-grad",
                                                              "optimizer",
                                                              "gc"};

constexpr double kClocksS = 5e-5;  // by which clocks of workers may differ
constexpr double kContradictedS =
    1e-2;  // a transfer that ends so long before it can begin took no time

bool computes(OperationKind kind) {
  return kind == OperationKind::kForward || kind == OperationKind::kBackward ||
         kind == OperationKind::kOptimizer || kind == OperationKind::kGarbage;
}

// With whom an operation begins: other stages of its replica, the same stage of other replicas,
// all.
struct Operation {
  OperationKind kind;
  int replica, stage, step, rank;
  double start_s, end_s;
  double length_s = 0;  // of computing, or of the transfer once all have come
  size_t meeting = 0;   // 0: with nobody
  std::vector<size_t> next = {};
  int before = 0;  // how many it waits for
};

struct StepTimes {
  std::vector<double> step_s;
  double mean() const {
    double sum = 0;
    for (const double each : step_s) {
      sum += each;
    }
    return step_s.empty() ? 0 : sum / static_cast<double>(step_s.size());
  }
};

class StageJob {
 public:
  bool add(const std::vector<StageOperation>& operations, std::string& why_not);
  void join();
  // Mean step time with these lengths; -1: operations wait for each other in a cycle.
  double run(const std::vector<double>& length_s) const;
  double recorded_s() const;
  std::vector<double> lengths() const;
  std::vector<double> usual_lengths() const;
  const std::vector<Operation>& nodes() const { return nodes_; }
  int stages() const { return stages_; }
  int replicas() const { return replicas_; }
  size_t steps() const { return steps_.size(); }
  size_t workers() const { return workers_; }

 private:
  using List = std::vector<size_t>;
  void order(size_t before, size_t after) {
    nodes_[before].next.push_back(after);
    ++nodes_[after].before;
  }
  void chain(const List& list) {
    for (size_t i = 1; i < list.size(); ++i) {
      order(list[i - 1], list[i]);
    }
  }
  void add_worker(std::map<OperationKind, List>& lists, int stage);
  void add_messages(std::map<OperationKind, List>& lists, int stage);
  void add_update(std::map<OperationKind, List>& lists, size_t last_compute);
  void meet(const List& list) {
    if (list.size() > 1) {
      meetings_.push_back(list);
      for (const size_t node : list) {
        nodes_[node].meeting = meetings_.size();
      }
    }
  }
  void find_transfers();

  std::vector<Operation> nodes_;
  std::vector<List> meetings_;
  std::vector<int64_t> steps_;
  // By step, replica and stage; by kind in the order of time.
  std::map<std::tuple<int, int, int>, std::map<OperationKind, List>> lists_;
  int stages_ = 0, replicas_ = 0;
  size_t workers_ = 0;
};

bool StageJob::add(const std::vector<StageOperation>& operations, std::string& why_not) {
  std::map<int, std::set<int>> ranks;  // by stage
  std::set<int64_t> steps;
  for (const StageOperation& each : operations) {
    ranks[each.stage].insert(each.rank);
    steps.insert(each.step);
  }
  steps_.assign(steps.begin(), steps.end());
  stages_ = ranks.rbegin()->first + 1;
  replicas_ = static_cast<int>(ranks.begin()->second.size());
  std::map<std::pair<int, int>, int> replica_of;
  for (const auto& [stage, all] : ranks) {
    if (static_cast<int>(all.size()) != replicas_ || static_cast<int>(ranks.size()) != stages_) {
      why_not = "stages have different numbers of ranks, or one has none";
      return false;
    }
    int replica = 0;
    for (const int rank : all) {
      replica_of[{stage, rank}] = replica++;
    }
    workers_ += all.size();
  }
  for (const StageOperation& each : operations) {
    const auto* const name =
        std::find(kOperationNames.begin(), kOperationNames.end(), each.operation);
    if (name == kOperationNames.end()) {
      why_not = "there is no rule for what '" + each.operation + "' waits for";
      return false;
    }
    const auto step = std::lower_bound(steps_.begin(), steps_.end(), each.step);
    nodes_.push_back({static_cast<OperationKind>(name - kOperationNames.begin()),
                      replica_of[{each.stage, each.rank}], each.stage,
                      static_cast<int>(step - steps_.begin()), each.rank, each.start_s,
                      each.end_s});
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    lists_[{nodes_[i].step, nodes_[i].replica, nodes_[i].stage}][nodes_[i].kind].push_back(i);
  }
  for (auto& [worker, kinds] : lists_) {
    for (auto& [kind, list] : kinds) {
      std::stable_sort(list.begin(), list.end(),
                       [&](size_t a, size_t b) { return nodes_[a].start_s < nodes_[b].start_s; });
    }
  }
  return true;
}

// A receive waits for the operation before the one it is for; that one waits for it; a send waits
// for what it sends.  Some profilers note messages that nothing was sent in, at both ends of a step
// and of the pipeline: these meet nobody.
void StageJob::add_messages(std::map<OperationKind, List>& lists, int stage) {
  struct Direction {
    OperationKind compute, send, receive;
    int sends_to, receives_from;
  };
  const Direction directions[] = {{OperationKind::kForward, OperationKind::kForwardSend,
                                   OperationKind::kForwardReceive, stage + 1, stage - 1},
                                  {OperationKind::kBackward, OperationKind::kBackwardSend,
                                   OperationKind::kBackwardReceive, stage - 1, stage + 1}};
  const auto has_peer = [&](int peer) { return peer >= 0 && peer < stages_; };
  for (const Direction& direction : directions) {
    const List& compute = lists[direction.compute];
    List& sends = lists[direction.send];
    List& receives = lists[direction.receive];
    if (compute.empty()) {
      continue;
    }
    const double last = nodes_[compute.back()].start_s;
    double first = nodes_[compute.front()].end_s;
    for (const size_t each : compute) {
      first = std::min(first, nodes_[each].end_s);
    }
    chain(sends);
    chain(receives);
    List real_sends;
    List real_receives;
    std::copy_if(sends.begin(), sends.end(), std::back_inserter(real_sends),
                 [&](size_t each) { return nodes_[each].end_s >= first - kClocksS; });
    std::copy_if(receives.begin(), receives.end(), std::back_inserter(real_receives),
                 [&](size_t each) { return nodes_[each].start_s <= last + kClocksS; });
    for (size_t i = 0; i < real_sends.size() && i < compute.size(); ++i) {
      order(compute[i], real_sends[i]);
    }
    const size_t skipped = real_receives.size() + 1 == compute.size() ? 1 : 0;
    for (size_t i = 0; i < real_receives.size() && i + skipped < compute.size(); ++i) {
      order(real_receives[i], compute[i + skipped]);
      if (i + skipped > 0) {
        order(compute[i + skipped - 1], real_receives[i]);
      }
    }
    sends = has_peer(direction.sends_to) ? real_sends : List{};
    receives = has_peer(direction.receives_from) ? real_receives : List{};
  }
}

// Behind the last computation: gradients, then the optimizer.
void StageJob::add_update(std::map<OperationKind, List>& lists, size_t last_compute) {
  const List& gradients = lists[OperationKind::kGradients];
  List after = {last_compute};
  after.insert(after.end(), lists[OperationKind::kGarbage].begin(),
               lists[OperationKind::kGarbage].end());
  after.insert(after.end(), lists[OperationKind::kNorms].begin(),
               lists[OperationKind::kNorms].end());
  after.insert(after.end(), lists[OperationKind::kEmbeddings].begin(),
               lists[OperationKind::kEmbeddings].end());
  const bool overlaps = !lists[OperationKind::kSeparate].empty();
  chain(lists[OperationKind::kParameters]);
  if (overlaps) {
    chain(gradients);
    if (!gradients.empty()) {
      if (!lists[OperationKind::kBackward].empty()) {
        order(lists[OperationKind::kBackward].back(), gradients.front());
      }
      if (!lists[OperationKind::kNorms].empty()) {
        order(gradients.back(), lists[OperationKind::kNorms].front());
      }
    }
    after.insert(after.end(), lists[OperationKind::kSeparate].begin(),
                 lists[OperationKind::kSeparate].end());
  } else {
    after.insert(after.end(), gradients.begin(), gradients.end());
  }
  after.insert(after.end(), lists[OperationKind::kClip].begin(), lists[OperationKind::kClip].end());
  after.insert(after.end(), lists[OperationKind::kOptimizer].begin(),
               lists[OperationKind::kOptimizer].end());
  chain(after);
}

void StageJob::add_worker(std::map<OperationKind, List>& lists, int stage) {
  List compute = lists[OperationKind::kForward];
  compute.insert(compute.end(), lists[OperationKind::kBackward].begin(),
                 lists[OperationKind::kBackward].end());
  std::stable_sort(compute.begin(), compute.end(),
                   [&](size_t a, size_t b) { return nodes_[a].start_s < nodes_[b].start_s; });
  chain(compute);
  const auto backward = std::find_if(compute.begin(), compute.end(), [&](size_t each) {
    return nodes_[each].kind == OperationKind::kBackward;
  });
  // The first messages of the backward pass are posted before the last forward pass ahead of it.
  if (backward - compute.begin() >= 2 && backward != compute.end()) {
    for (const OperationKind kind :
         {OperationKind::kBackwardSend, OperationKind::kBackwardReceive}) {
      if (!lists[kind].empty()) {
        order(*(backward - 2), lists[kind].front());
      }
    }
  }
  if (!lists[OperationKind::kParameters].empty() && !lists[OperationKind::kForward].empty()) {
    order(lists[OperationKind::kParameters].back(), lists[OperationKind::kForward].front());
  }
  if (!compute.empty()) {
    size_t last = compute.front();
    for (const size_t each : compute) {
      last = nodes_[each].end_s >= nodes_[last].end_s ? each : last;
    }
    add_update(lists, last);
  }
  add_messages(lists, stage);
}

void StageJob::join() {
  for (auto& [worker, lists] : lists_) {
    add_worker(lists, std::get<2>(worker));
  }
  const auto at = [&](int step, int replica, int stage, OperationKind kind) -> const List& {
    return lists_[{step, replica, stage}][kind];
  };
  for (int step = 0; step < static_cast<int>(steps_.size()); ++step) {
    List clips;
    for (int stage = 0; stage < stages_; ++stage) {
      for (int replica = 0; replica < replicas_; ++replica) {
        const List& clip = at(step, replica, stage, OperationKind::kClip);
        clips.insert(clips.end(), clip.begin(), clip.end());
        if (stage + 1 < stages_) {
          const auto pair_up = [&](OperationKind send, int from, OperationKind receive, int to) {
            const List& sends = at(step, replica, from, send);
            const List& receives = at(step, replica, to, receive);
            for (size_t i = 0; i < std::min(sends.size(), receives.size()); ++i) {
              meet({sends[i], receives[i]});
            }
          };
          pair_up(OperationKind::kForwardSend, stage, OperationKind::kForwardReceive, stage + 1);
          pair_up(OperationKind::kBackwardSend, stage + 1, OperationKind::kBackwardReceive, stage);
        }
      }
      for (const OperationKind kind :
           {OperationKind::kParameters, OperationKind::kGradients, OperationKind::kSeparate}) {
        for (size_t i = 0; i < at(step, 0, stage, kind).size(); ++i) {
          List all;
          for (int replica = 0; replica < replicas_; ++replica) {
            const List& list = at(step, replica, stage, kind);
            if (i < list.size()) {
              all.push_back(list[i]);
            }
          }
          meet(all);
        }
      }
    }
    for (int replica = 0; stages_ > 1 && replica < replicas_; ++replica) {
      const List& first = at(step, replica, 0, OperationKind::kEmbeddings);
      const List& last = at(step, replica, stages_ - 1, OperationKind::kEmbeddings);
      if (!first.empty() && !last.empty()) {
        meet({first.front(), last.front()});
      }
    }
    meet(clips);
  }
  find_transfers();
}

void StageJob::find_transfers() {
  for (Operation& node : nodes_) {
    node.length_s = node.end_s - node.start_s;
  }
  for (const List& meeting : meetings_) {
    double last = nodes_[meeting.front()].start_s;
    for (const size_t each : meeting) {
      last = std::max(last, nodes_[each].start_s);
    }
    for (const size_t each : meeting) {
      const double transfer = nodes_[each].end_s - last;
      nodes_[each].length_s = transfer <= -kContradictedS ? 0 : transfer;
    }
  }
}

double StageJob::run(const std::vector<double>& length_s) const {
  std::vector<int> before(nodes_.size());
  std::vector<double> start_s(nodes_.size()), end_s(nodes_.size());
  std::vector<size_t> came(meetings_.size());
  std::vector<double> step_s(steps_.size());
  std::vector<size_t> ready;
  size_t done = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    before[i] = nodes_[i].before;
    if (before[i] == 0) {
      ready.push_back(i);
    }
  }
  const auto finish = [&](size_t node, double end) {
    end_s[node] = end;
    ++done;
    double& step = step_s[static_cast<size_t>(nodes_[node].step)];
    step = std::max(step, end);
    for (const size_t next : nodes_[node].next) {
      start_s[next] = std::max(start_s[next], end);
      if (--before[next] == 0) {
        ready.push_back(next);
      }
    }
  };
  while (!ready.empty()) {
    const size_t node = ready.back();
    ready.pop_back();
    const size_t meeting = nodes_[node].meeting;
    if (meeting == 0) {
      finish(node, start_s[node] + length_s[node]);
    } else if (++came[meeting - 1] == meetings_[meeting - 1].size()) {
      double last = 0;
      for (const size_t each : meetings_[meeting - 1]) {
        last = std::max(last, start_s[each]);
      }
      for (const size_t each : meetings_[meeting - 1]) {
        finish(each, last + length_s[each]);
      }
    }
  }
  return done == nodes_.size() ? StepTimes{step_s}.mean() : -1;
}

double StageJob::recorded_s() const {
  std::vector<std::pair<double, double>> bounds(steps_.size(), {1e300, -1e300});
  for (const Operation& node : nodes_) {
    auto& [first, last] = bounds[static_cast<size_t>(node.step)];
    first = std::min(first, node.start_s);
    last = std::max(last, node.end_s);
  }
  StepTimes times;
  for (const auto& [first, last] : bounds) {
    times.step_s.push_back(last - first);
  }
  return times.mean();
}

std::vector<double> StageJob::lengths() const {
  std::vector<double> lengths;
  for (const Operation& node : nodes_) {
    lengths.push_back(node.length_s);
  }
  return lengths;
}

std::vector<double> StageJob::usual_lengths() const {
  std::map<OperationKind, std::vector<double>> by_kind;
  for (const Operation& node : nodes_) {
    by_kind[node.kind].push_back(node.length_s);
  }
  std::map<OperationKind, double> usual;
  for (auto& [kind, all] : by_kind) {
    double sum = 0;
    for (const double each : all) {
      sum += each;
    }
    std::sort(all.begin(), all.end());
    const double median = (all[(all.size() - 1) / 2] + all[all.size() / 2]) / 2;
    usual[kind] = computes(kind) ? sum / static_cast<double>(all.size()) : median;
  }
  std::vector<double> lengths;
  for (const Operation& node : nodes_) {
    lengths.push_back(usual[node.kind]);
  }
  return lengths;
}

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
