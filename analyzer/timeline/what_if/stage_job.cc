#include "analyzer/timeline/what_if/stage_job.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace traintrace::what_if {
namespace {

constexpr double kClocksS = 5e-5;  // by which clocks of workers may differ
constexpr double kContradictedS =
    1e-2;  // a transfer that ends so long before it can begin took no time

bool computes(OperationKind kind) {
  return kind == OperationKind::kForward || kind == OperationKind::kBackward ||
         kind == OperationKind::kOptimizer || kind == OperationKind::kGarbage;
}

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

}  // namespace

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

}  // namespace traintrace::what_if
