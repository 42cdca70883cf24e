// Graphs: nodes and the edges between them.  What is built here (by explicit calls or by capture)
// is a description; graph_exec.h makes an executable of it.
//
// One lock, graph_mutex(), guards all graphs and captures.  Functions here need it to be held
// unless they say otherwise.  It is never held while anything blocks or while user code runs.
#pragma once
#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/graph_objects.h"
#include "cuda/state.h"

namespace simgpu {

struct Exec;

struct Edge {
  CUgraphNode node = nullptr;  // the other end
  CUgraphEdgeData data = {};
};

using KernelAttributes = std::map<CUlaunchAttributeID, CUlaunchAttributeValue>;

// What a node does.  Parameters are inside `work` (kernel_params_of and the like give them back).
struct NodeContent {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::shared_ptr<const Work> work;  // null: empty, child graph, event record and wait
  std::shared_ptr<Event> event;
  CUevent event_handle = nullptr;
  CUcontext context = nullptr;                   // memcpy, memset, batch: as the program gave it
  CUgraph child = nullptr;                       // owned by the node
  unsigned flags = 0;                            // batch memory operations
  std::vector<CUstreamBatchMemOpParams> memops;  // batch: what GetParams points to
  KernelAttributes attributes;
};

}  // namespace simgpu

struct CUgraphNode_st {
  std::atomic<bool> alive{false};
  uint64_t id = 0;  // never reused: executables and clones refer to nodes by it
  uint64_t cloned_from = 0;
  CUgraph graph = nullptr;
  simgpu::NodeContent content;
  std::vector<simgpu::Edge> dependencies;
  std::vector<simgpu::Edge> dependents;
};

struct CUgraph_st {
  std::atomic<bool> alive{false};
  uint64_t id = 0;
  uint64_t cloned_from = 0;
  std::vector<CUgraphNode> nodes;  // in order of creation
  CUgraphNode owner = nullptr;     // the child graph node that this belongs to
  bool moved = false;              // into its owner, by CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE
  int captures = 0;                // that are writing into it
  std::shared_ptr<simgpu::UserReferences> references;
  std::weak_ptr<simgpu::Exec> executable;  // the only one, where there are memory nodes
};

namespace simgpu {

std::mutex& graph_mutex();

// --- graphs
CUgraph new_graph();
CUresult check_graph(CUgraph graph);
CUresult check_node(CUgraphNode node);
// Memory nodes forbid many things; `deep` looks into child graphs too.
bool has_memory_nodes(const CUgraph_st& graph, bool deep);
// The works of a destroyed graph, to be dropped when the lock is no longer held.
struct Garbage {
  std::vector<NodeContent> contents;
  std::vector<std::shared_ptr<UserReferences>> references;
};
void destroy_graph(CUgraph graph, Garbage& garbage);
CUresult destroy_node(CUgraphNode node, Garbage& garbage);
// Copies nodes, edges and child graphs.  CUDA_ERROR_NOT_SUPPORTED for memory nodes.
CUresult clone_graph(const CUgraph_st& original, CUgraph& clone);
CUgraphNode find_in_clone(uint64_t original_id, const CUgraph_st& clone);

// --- nodes and edges
// Edges of calls without edge data.
std::vector<Edge> plain_edges(const CUgraphNode* nodes, size_t count);
std::vector<Edge> edges_with_data(const CUgraphNode* nodes, const CUgraphEdgeData* data,
                                  size_t count);
// Appends a node.  A child graph in `content` becomes the node's own.
CUresult add_node(CUgraph graph, const std::vector<Edge>& dependencies, NodeContent content,
                  CUgraphNode& out);
// As add_node, for dependencies known to be right (capture).
CUgraphNode append_node(CUgraph graph, const std::vector<Edge>& dependencies, NodeContent content);
CUresult check_dependencies(CUgraph graph, const std::vector<Edge>& dependencies,
                            CUgraphNodeType to);
CUresult add_edge(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData& data);
CUresult remove_edge(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData& data);
bool is_default(const CUgraphEdgeData& data);
bool same_edge_data(const CUgraphEdgeData& a, const CUgraphEdgeData& b);

// Null pointers and zero counts, as cuGraphGetNodes and its relatives treat them: `count` is the
// capacity on entry and the number on return; entries beyond the number are set to null.
CUresult give_nodes(const std::vector<CUgraphNode>& nodes, CUgraphNode* out, size_t* count);

// cuGraphDebugDotPrint's text.
std::string dot_text(const CUgraph_st& graph, unsigned flags);

}  // namespace simgpu
