// Graphs, their edges, and questions about them.
#define __CUDA_API_VERSION_INTERNAL  // declares all versions of functions under their symbols'
                                     // names
#include <cuda.h>

#include <cstdio>
#include <string>

#include "common/entry.h"
#include "cuda/graph.h"

using namespace simgpu;

namespace {

bool all_default(const std::vector<Edge>& edges) {
  for (const Edge& edge : edges) {
    if (!is_default(edge.data)) {
      return false;
    }
  }
  return true;
}

// The ends of one node's edges; `data` may be null where all of it is zero.
CUresult give_edges(const std::vector<Edge>& edges, CUgraphNode* nodes, CUgraphEdgeData* data,
                    size_t* count) {
  if (!count || (data && !nodes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (nodes && !data && !all_default(edges)) {
    return CUDA_ERROR_LOSSY_QUERY;
  }
  std::vector<CUgraphNode> ends;
  ends.reserve(edges.size());
  for (const Edge& edge : edges) {
    ends.push_back(edge.node);
  }
  const size_t capacity = *count;
  SIMGPU_TRY(give_nodes(ends, nodes, count));
  for (size_t i = 0; data && i < capacity; ++i) {
    data[i] = i < edges.size() ? edges[i].data : CUgraphEdgeData{};
  }
  return CUDA_SUCCESS;
}

CUresult give_all_edges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                        size_t* count) {
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_graph(graph));
  if (!count || !from != !to || (data && !from)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<Edge> edges;
  std::vector<CUgraphNode> starts, ends;
  for (CUgraphNode node : graph->nodes) {
    for (const Edge& edge : node->dependencies) {
      edges.push_back(edge);
      starts.push_back(edge.node);
      ends.push_back(node);
    }
  }
  const size_t capacity = *count;
  SIMGPU_TRY(give_edges(edges, from, data, count));
  size_t same_count = capacity;
  return from ? give_nodes(ends, to, &same_count) : CUDA_SUCCESS;
}

CUresult add_edges(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                   const CUgraphEdgeData* data, size_t count) {
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_graph(graph));
  if (count > 0 && (!from || !to)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    SIMGPU_TRY(check_node(from[i]));
    SIMGPU_TRY(check_node(to[i]));
    if (from[i]->graph != graph) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    SIMGPU_TRY(add_edge(from[i], to[i], data ? data[i] : CUgraphEdgeData{}));
  }
  return CUDA_SUCCESS;
}

CUresult remove_edges(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                      const CUgraphEdgeData* data, size_t count) {
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_graph(graph));
  if ((count > 0 && (!from || !to)) || has_memory_nodes(*graph, false)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    SIMGPU_TRY(check_node(from[i]));
    SIMGPU_TRY(check_node(to[i]));
    if (from[i]->graph != graph || to[i]->graph != graph) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    SIMGPU_TRY(remove_edge(from[i], to[i], data ? data[i] : CUgraphEdgeData{}));
  }
  return CUDA_SUCCESS;
}

CUresult give_dependencies(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data,
                           size_t* count) {
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_node(node));
  return give_edges(node->dependencies, nodes, data, count);
}

CUresult give_dependents(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data,
                         size_t* count) {
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_node(node));
  return give_edges(node->dependents, nodes, data, count);
}

}  // namespace

CUresult cuGraphCreate(CUgraph* out, unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  if (!out || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(graph_mutex());
  *out = new_graph();
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  SIMGPU_DRIVER_ENTER();
  Garbage garbage;  // dropped after the lock
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_graph(graph));
  if (graph->owner || graph->captures > 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  destroy_graph(graph, garbage);
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* out, CUgraph graph) {
  SIMGPU_DRIVER_ENTER();
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_graph(graph));
  return out ? clone_graph(*graph, *out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph clone) {
  SIMGPU_DRIVER_ENTER();
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_node(original));
  SIMGPU_TRY(check_graph(clone));
  CUgraphNode found = find_in_clone(original->id, *clone);
  if (!out || !found) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = found;
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroyNode(CUgraphNode node) {
  SIMGPU_DRIVER_ENTER();
  Garbage garbage;  // dropped after the lock
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_node(node));
  return destroy_node(node, garbage);
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  SIMGPU_DRIVER_ENTER();
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_node(node));
  if (!type) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *type = node->content.type;
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  SIMGPU_DRIVER_ENTER();
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_graph(graph));
  return give_nodes(graph->nodes, nodes, count);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  SIMGPU_DRIVER_ENTER();
  const std::lock_guard lock(graph_mutex());
  SIMGPU_TRY(check_graph(graph));
  std::vector<CUgraphNode> roots;
  for (CUgraphNode node : graph->nodes) {
    if (node->dependencies.empty()) {
      roots.push_back(node);
    }
  }
  return give_nodes(roots, nodes, count);
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                            CUgraphEdgeData* data, size_t* count) {
  SIMGPU_DRIVER_ENTER();
  return give_all_edges(graph, from, to, data, count);
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  SIMGPU_DRIVER_ENTER();
  return give_all_edges(graph, from, to, nullptr, count);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data,
                                       size_t* count) {
  SIMGPU_DRIVER_ENTER();
  return give_dependencies(node, nodes, data, count);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  SIMGPU_DRIVER_ENTER();
  return give_dependencies(node, nodes, nullptr, count);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* nodes,
                                         CUgraphEdgeData* data, size_t* count) {
  SIMGPU_DRIVER_ENTER();
  return give_dependents(node, nodes, data, count);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  SIMGPU_DRIVER_ENTER();
  return give_dependents(node, nodes, nullptr, count);
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* data, size_t count) {
  SIMGPU_DRIVER_ENTER();
  return add_edges(graph, from, to, data, count);
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                size_t count) {
  SIMGPU_DRIVER_ENTER();
  return add_edges(graph, from, to, nullptr, count);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData* data, size_t count) {
  SIMGPU_DRIVER_ENTER();
  return remove_edges(graph, from, to, data, count);
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   size_t count) {
  SIMGPU_DRIVER_ENTER();
  return remove_edges(graph, from, to, nullptr, count);
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  std::string text;
  {
    const std::lock_guard lock(graph_mutex());
    SIMGPU_TRY(check_graph(graph));
    text = dot_text(*graph, flags);
  }
  if (!path) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  FILE* file = fopen(path, "w");
  if (!file) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
  return fclose(file) == 0 && written ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
