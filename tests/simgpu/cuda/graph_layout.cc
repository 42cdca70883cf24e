// From nodes to lanes.
#include <algorithm>
#include <deque>

#include "cuda/graph_exec.h"

namespace simgpu {
namespace {

// As many kernels as recent parts run at the same time.
constexpr size_t kMaxLanes = 128;

// For each step, how many steps of each lane it comes after (itself included).
using Clock = std::vector<uint32_t>;

class Planner {
 public:
  explicit Planner(Layout& layout) : layout_(layout) {}

  // Adds the steps of `graph`, whose roots come after `before`.  Gives the step after which all is
  // done through `after`.  False if there is a cycle.
  bool add_graph(ExecGraph& graph, const std::vector<uint32_t>& before, uint32_t& after);
  const ExecNode* stuck() const { return stuck_; }

 private:
  uint32_t add_step(const std::vector<uint32_t>& dependencies);
  uint32_t choose_lane(const std::vector<uint32_t>& dependencies, const Clock& clock);
  bool order(const ExecGraph& graph, std::vector<uint32_t>& order);
  bool add_node(ExecGraph& graph, ExecNode& node, const std::vector<uint32_t>& before);

  Layout& layout_;
  std::vector<Clock> clocks_;
  const ExecNode* stuck_ = nullptr;
};

// Topological, otherwise as created.
bool Planner::order(const ExecGraph& graph, std::vector<uint32_t>& order) {
  const size_t count = graph.nodes.size();
  std::vector<size_t> missing(count);
  std::vector<std::vector<uint32_t>> dependents(count);
  std::deque<uint32_t> ready;
  for (uint32_t i = 0; i < count; ++i) {
    missing[i] = graph.nodes[i].dependencies.size();
    for (uint32_t dependency : graph.nodes[i].dependencies) {
      dependents[dependency].push_back(i);
    }
    if (missing[i] == 0) {
      ready.push_back(i);
    }
  }
  while (!ready.empty()) {
    order.push_back(ready.front());
    ready.pop_front();
    for (uint32_t dependent : dependents[order.back()]) {
      if (--missing[dependent] == 0) {
        ready.push_back(dependent);
      }
    }
  }
  for (uint32_t i = 0; i < count && order.size() < count; ++i) {
    if (missing[i] > 0) {
      stuck_ = &graph.nodes[i];
      return false;
    }
  }
  return true;
}

// A lane whose last step this one comes after: first those of its direct dependencies.
uint32_t Planner::choose_lane(const std::vector<uint32_t>& dependencies, const Clock& clock) {
  auto& lanes = layout_.lanes;
  for (uint32_t dependency : dependencies) {
    const uint32_t lane = layout_.steps[dependency].lane;
    if (lanes[lane].back() == dependency) {
      return lane;
    }
  }
  for (uint32_t lane = 0; lane < clock.size(); ++lane) {
    if (clock[lane] == lanes[lane].size()) {
      return lane;
    }
  }
  if (lanes.size() < kMaxLanes) {
    lanes.emplace_back();
    return lanes.size() - 1;
  }
  const auto shorter = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  return std::min_element(lanes.begin(), lanes.end(), shorter) - lanes.begin();
}

uint32_t Planner::add_step(const std::vector<uint32_t>& dependencies) {
  Clock clock;
  for (uint32_t dependency : dependencies) {
    const Clock& other = clocks_[dependency];
    clock.resize(std::max(clock.size(), other.size()));
    for (size_t lane = 0; lane < other.size(); ++lane) {
      clock[lane] = std::max(clock[lane], other[lane]);
    }
  }
  const uint32_t lane = choose_lane(dependencies, clock);
  const uint32_t step = layout_.steps.size();
  layout_.lanes[lane].push_back(step);
  clock.resize(std::max<size_t>(clock.size(), lane + 1));
  clock[lane] = layout_.lanes[lane].size();
  clocks_.push_back(std::move(clock));
  layout_.steps.push_back({lane, {}});
  for (uint32_t dependency : dependencies) {
    if (layout_.steps[dependency].lane != lane) {
      layout_.steps[step].dependencies.push_back(dependency);
    }
  }
  return step;
}

bool Planner::add_node(ExecGraph& graph, ExecNode& node, const std::vector<uint32_t>& before) {
  std::vector<uint32_t> dependencies;
  for (uint32_t dependency : node.dependencies) {
    dependencies.push_back(graph.nodes[dependency].step);
  }
  if (dependencies.empty()) {
    dependencies = before;
  }
  if (!node.child) {
    node.step = add_step(dependencies);
    return true;
  }
  if (dependencies.size() > 1) {
    dependencies = {add_step(dependencies)};
  }
  return add_graph(*node.child, dependencies, node.step);
}

bool Planner::add_graph(ExecGraph& graph, const std::vector<uint32_t>& before, uint32_t& after) {
  std::vector<uint32_t> sorted;
  if (!order(graph, sorted)) {
    return false;
  }
  std::vector<uint32_t> leaves;
  for (uint32_t index : sorted) {
    ExecNode& node = graph.nodes[index];
    if (!add_node(graph, node, before)) {
      return false;
    }
    if (!node.has_dependents) {
      leaves.push_back(node.step);
    }
  }
  if (leaves.empty()) {
    leaves = before;
  }
  after = leaves.size() == 1 ? leaves[0] : add_step(leaves);
  return true;
}

}  // namespace

bool lay_out(ExecGraph& graph, Layout& layout, const ExecNode*& stuck) {
  Planner planner(layout);
  uint32_t after = 0;
  const bool acyclic = planner.add_graph(graph, {}, after);
  stuck = planner.stuck();
  return acyclic;
}

}  // namespace simgpu
