#include "cuda/graph.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace simgpu {
namespace {

Slots<CUgraph_st>& graph_slots() {
  static Slots<CUgraph_st>& slots = *new Slots<CUgraph_st>;
  return slots;
}

Slots<CUgraphNode_st>& node_slots() {
  static Slots<CUgraphNode_st>& slots = *new Slots<CUgraphNode_st>;
  return slots;
}

uint64_t next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

bool is_memory(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

// Ports and the programmatic type exist between kernels only.
bool valid_edge_data(const CUgraphEdgeData& data, CUgraphNodeType from, CUgraphNodeType to) {
  if (is_default(data)) {
    return true;
  }
  const CUgraphEdgeData clean = {data.from_port, 0, data.type, {}};
  return same_edge_data(data, clean) && data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
         (data.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
          data.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) &&
         from == CU_GRAPH_NODE_TYPE_KERNEL && to == CU_GRAPH_NODE_TYPE_KERNEL;
}

bool erase_edge(std::vector<Edge>& edges, CUgraphNode node) {
  return std::erase_if(edges, [&](const Edge& edge) { return edge.node == node; }) > 0;
}

// The slot goes back to the pool; what it held goes into `garbage`.
void retire_node(CUgraphNode node, Garbage& garbage) {
  if (node->content.child) {
    destroy_graph(node->content.child, garbage);
  }
  garbage.contents.push_back(std::move(node->content));
  node->content = {};
  node->dependencies.clear();
  node->dependents.clear();
  node->graph = nullptr;
  node->alive.store(false, std::memory_order_release);
  node_slots().give(node);
}

}  // namespace

std::mutex& graph_mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

CUgraph new_graph() {
  CUgraph graph = graph_slots().take();
  graph->id = next_id();
  graph->references = std::make_shared<UserReferences>();
  graph->alive.store(true, std::memory_order_release);
  return graph;
}

CUresult check_graph(CUgraph graph) {
  return graph && graph->alive.load(std::memory_order_acquire) ? CUDA_SUCCESS
                                                               : CUDA_ERROR_INVALID_VALUE;
}

CUresult check_node(CUgraphNode node) {
  return node && node->alive.load(std::memory_order_acquire) ? CUDA_SUCCESS
                                                             : CUDA_ERROR_INVALID_VALUE;
}

bool has_memory_nodes(const CUgraph_st& graph, bool deep) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](CUgraphNode node) {
    return is_memory(node->content.type) ||
           (deep && node->content.child && has_memory_nodes(*node->content.child, deep));
  });
}

void destroy_graph(CUgraph graph, Garbage& garbage) {
  for (CUgraphNode node : graph->nodes) {
    retire_node(node, garbage);
  }
  garbage.references.push_back(std::move(graph->references));
  graph->nodes.clear();
  graph->references.reset();
  graph->executable.reset();
  graph->owner = nullptr;
  graph->moved = false;
  graph->captures = 0;
  graph->cloned_from = 0;
  graph->alive.store(false, std::memory_order_release);
  graph_slots().give(graph);
}

CUresult destroy_node(CUgraphNode node, Garbage& garbage) {
  CUgraph graph = node->graph;
  if (graph->captures > 0 || has_memory_nodes(*graph, false)) {
    return CUDA_ERROR_NOT_PERMITTED;
  }
  for (const Edge& edge : node->dependencies) {
    erase_edge(edge.node->dependents, node);
  }
  for (const Edge& edge : node->dependents) {
    erase_edge(edge.node->dependencies, node);
  }
  std::erase(graph->nodes, node);
  retire_node(node, garbage);
  return CUDA_SUCCESS;
}

CUresult clone_graph(const CUgraph_st& original, CUgraph& clone) {
  if (has_memory_nodes(original, true)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  clone = new_graph();
  clone->cloned_from = original.id;
  clone->references = std::make_shared<UserReferences>(original.references->counts());
  std::unordered_map<CUgraphNode, CUgraphNode> copies;
  for (CUgraphNode node : original.nodes) {
    NodeContent content = node->content;
    if (content.child) {
      clone_graph(*node->content.child, content.child);
    }
    CUgraphNode copy = append_node(clone, {}, std::move(content));
    copy->cloned_from = node->id;
    copies[node] = copy;
  }
  const auto translate = [&](const std::vector<Edge>& edges) {
    std::vector<Edge> out;
    out.reserve(edges.size());
    for (const Edge& edge : edges) {
      out.push_back({copies.at(edge.node), edge.data});
    }
    return out;
  };
  for (CUgraphNode node : original.nodes) {
    copies[node]->dependencies = translate(node->dependencies);
    copies[node]->dependents = translate(node->dependents);
  }
  return CUDA_SUCCESS;
}

CUgraphNode find_in_clone(uint64_t original_id, const CUgraph_st& clone) {
  for (CUgraphNode node : clone.nodes) {
    if (node->cloned_from == original_id) {
      return node;
    }
    if (node->content.child) {
      if (CUgraphNode found = find_in_clone(original_id, *node->content.child)) {
        return found;
      }
    }
  }
  return nullptr;
}

std::vector<Edge> plain_edges(const CUgraphNode* nodes, size_t count) {
  return edges_with_data(nodes, nullptr, count);
}

std::vector<Edge> edges_with_data(const CUgraphNode* nodes, const CUgraphEdgeData* data,
                                  size_t count) {
  std::vector<Edge> edges(count);
  for (size_t i = 0; i < count; ++i) {
    edges[i] = {nodes ? nodes[i] : nullptr, data ? data[i] : CUgraphEdgeData{}};
  }
  return edges;
}

CUresult check_dependencies(CUgraph graph, const std::vector<Edge>& dependencies,
                            CUgraphNodeType to) {
  std::set<CUgraphNode> seen;
  for (const Edge& edge : dependencies) {
    if (check_node(edge.node) || edge.node->graph != graph || !seen.insert(edge.node).second ||
        !valid_edge_data(edge.data, edge.node->content.type, to)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUgraphNode append_node(CUgraph graph, const std::vector<Edge>& dependencies, NodeContent content) {
  CUgraphNode node = node_slots().take();
  node->id = next_id();
  node->cloned_from = 0;
  node->graph = graph;
  node->content = std::move(content);
  node->dependencies = dependencies;
  for (const Edge& edge : dependencies) {
    edge.node->dependents.push_back({node, edge.data});
  }
  if (node->content.child) {
    node->content.child->owner = node;
  }
  node->alive.store(true, std::memory_order_release);
  graph->nodes.push_back(node);
  return node;
}

CUresult add_node(CUgraph graph, const std::vector<Edge>& dependencies, NodeContent content,
                  CUgraphNode& out) {
  SIMGPU_TRY(check_graph(graph));
  SIMGPU_TRY(check_dependencies(graph, dependencies, content.type));
  if (graph->moved && is_memory(content.type)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  out = append_node(graph, dependencies, std::move(content));
  return CUDA_SUCCESS;
}

CUresult add_edge(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData& data) {
  const auto known = [&](const Edge& edge) { return edge.node == from; };
  if (from == to || from->graph != to->graph ||
      !valid_edge_data(data, from->content.type, to->content.type) ||
      std::any_of(to->dependencies.begin(), to->dependencies.end(), known)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  to->dependencies.push_back({from, data});
  from->dependents.push_back({to, data});
  return CUDA_SUCCESS;
}

CUresult remove_edge(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData& data) {
  const auto wanted = [&](const Edge& edge) {
    return edge.node == from && same_edge_data(edge.data, data);
  };
  if (std::none_of(to->dependencies.begin(), to->dependencies.end(), wanted)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  erase_edge(to->dependencies, from);
  erase_edge(from->dependents, to);
  return CUDA_SUCCESS;
}

bool same_edge_data(const CUgraphEdgeData& a, const CUgraphEdgeData& b) {
  return a.from_port == b.from_port && a.to_port == b.to_port && a.type == b.type &&
         std::equal(std::begin(a.reserved), std::end(a.reserved), std::begin(b.reserved));
}

bool is_default(const CUgraphEdgeData& data) {
  return same_edge_data(data, {});
}

CUresult give_nodes(const std::vector<CUgraphNode>& nodes, CUgraphNode* out, size_t* count) {
  if (!count) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!out) {
    *count = nodes.size();
    return CUDA_SUCCESS;
  }
  for (size_t i = 0; i < *count; ++i) {
    out[i] = i < nodes.size() ? nodes[i] : nullptr;
  }
  *count = std::min(*count, nodes.size());
  return CUDA_SUCCESS;
}

}  // namespace simgpu
