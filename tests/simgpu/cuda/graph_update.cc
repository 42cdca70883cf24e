// cuGraphExecUpdate: does a graph have the shape of an executable, and may its parameters be taken
// over?
#include <algorithm>

#include "cuda/copy.h"
#include "cuda/graph_exec.h"

namespace simgpu {
namespace {

CUgraphExecUpdateResult check_copy(const Work& to, const Work& from) {
  CUDA_MEMCPY3D a, b;
  if (copy_params_of(to, a) && copy_params_of(from, b) &&
      (a.srcMemoryType != b.srcMemoryType || a.dstMemoryType != b.dstMemoryType)) {
    return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUgraphExecUpdateResult check_set(const Work& to, const Work& from) {
  CUDA_MEMSET_NODE_PARAMS a, b;
  if (!set_params_of(to, a) || !set_params_of(from, b)) {
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
  }
  const bool same_shape =
      a.width == b.width && a.elementSize == b.elementSize && a.pitch == b.pitch;
  if (a.height != b.height || (a.height > 1 && !same_shape)) {
    return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

int attribute(const NodeContent& content, CUlaunchAttributeID id) {
  const auto found = content.attributes.find(id);
  if (found == content.attributes.end()) {
    return 0;
  }
  return id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE ? found->second.cooperative : found->second.priority;
}

// Pairs nodes from the exits upwards, dependencies in edge order.
class Matcher {
 public:
  explicit Matcher(uint64_t exec_flags) : exec_flags_(exec_flags) {}

  bool match(ExecGraph& mine, const CUgraph_st& graph);
  const CUgraphExecUpdateResultInfo& info() const { return info_; }
  void apply();

 private:
  bool fail(CUgraphExecUpdateResult result, CUgraphNode node, CUgraphNode from = nullptr) {
    info_ = {result, node, from};
    return false;
  }
  bool pair_exits(ExecGraph& mine, const CUgraph_st& graph);
  bool pair_dependencies(ExecGraph& mine, ExecNode& node, CUgraphNode other);
  bool check(ExecNode& node, CUgraphNode other);

  uint64_t exec_flags_;
  CUgraphExecUpdateResultInfo info_ = {};
  std::vector<std::pair<ExecNode*, CUgraphNode>> pairs_;
  std::unordered_map<const ExecNode*, CUgraphNode> other_of_;
  std::unordered_map<CUgraphNode, ExecNode*> mine_of_;
};

bool Matcher::pair_exits(ExecGraph& mine, const CUgraph_st& graph) {
  auto exit = mine.nodes.begin();
  const auto is_exit = [](const ExecNode& node) { return !node.has_dependents; };
  for (CUgraphNode node : graph.nodes) {
    if (!node->dependents.empty()) {
      continue;
    }
    exit = std::find_if(exit, mine.nodes.end(), is_exit);
    if (exit == mine.nodes.end()) {
      return fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node);
    }
    other_of_[&*exit] = node;
    mine_of_[node] = &*exit;
    pairs_.push_back({&*exit++, node});
  }
  return true;
}

bool Matcher::pair_dependencies(ExecGraph& mine, ExecNode& node, CUgraphNode other) {
  if (node.dependencies.size() != other->dependencies.size()) {
    return fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, other);
  }
  for (size_t i = 0; i < node.dependencies.size(); ++i) {
    ExecNode& before = mine.nodes[node.dependencies[i]];
    const Edge& edge = other->dependencies[i];
    const bool new_mine = other_of_.emplace(&before, edge.node).second;
    const bool new_other = mine_of_.emplace(edge.node, &before).second;
    if (new_mine && new_other) {
      pairs_.push_back({&before, edge.node});
    }
    if (other_of_[&before] != edge.node || mine_of_[edge.node] != &before ||
        !same_edge_data(node.edge_data[i], edge.data)) {
      return fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, other, edge.node);
    }
  }
  return true;
}

bool Matcher::check(ExecNode& node, CUgraphNode other) {
  if (node.content.type != other->content.type) {
    return fail(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, other);
  }
  if (node.child) {
    return match(*node.child, *other->content.child);
  }
  const CUgraphExecUpdateResult result = check_update(node.content, other->content, exec_flags_);
  return result == CU_GRAPH_EXEC_UPDATE_SUCCESS || fail(result, other);
}

bool Matcher::match(ExecGraph& mine, const CUgraph_st& graph) {
  if (mine.nodes.size() != graph.nodes.size()) {
    return fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr);
  }
  const size_t first = pairs_.size();
  if (!pair_exits(mine, graph)) {
    return false;
  }
  for (size_t i = first; i < pairs_.size(); ++i) {
    if (!pair_dependencies(mine, *pairs_[i].first, pairs_[i].second)) {
      return false;
    }
  }
  const size_t last = pairs_.size();
  if (last - first != mine.nodes.size()) {
    return fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr);
  }
  for (size_t i = first; i < last; ++i) {
    if (!check(*pairs_[i].first, pairs_[i].second)) {
      return false;
    }
  }
  return true;
}

void Matcher::apply() {
  for (const auto& [node, other] : pairs_) {
    node->content = other->content;
    node->content.child = nullptr;
  }
}

}  // namespace

CUgraphExecUpdateResult check_update(const NodeContent& to, const NodeContent& from,
                                     uint64_t exec_flags) {
  switch (to.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const bool fixed_priority = exec_flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
      const auto changed = [&](CUlaunchAttributeID id) {
        return attribute(to, id) != attribute(from, id);
      };
      return changed(CU_LAUNCH_ATTRIBUTE_COOPERATIVE) ||
                     (fixed_priority && changed(CU_LAUNCH_ATTRIBUTE_PRIORITY))
                 ? CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED
                 : CU_GRAPH_EXEC_UPDATE_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return check_copy(*to.work, *from.work);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return check_set(*to.work, *from.work);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    default:
      return CU_GRAPH_EXEC_UPDATE_SUCCESS;
  }
}

CUresult update(Exec& exec, ExecGraph& part, const CUgraph_st& graph,
                CUgraphExecUpdateResultInfo& info) {
  Matcher matcher(exec.flags);
  const bool same = matcher.match(part, graph);
  info = matcher.info();
  if (!same) {
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  matcher.apply();
  exec.stale = true;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
