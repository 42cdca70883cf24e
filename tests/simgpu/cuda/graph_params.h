// Between the driver's parameter structs and the contents of nodes.
#pragma once
#include <cuda.h>

#include "cuda/graph.h"
#include "cuda/graph_exec.h"

namespace simgpu {

// --- making contents; none needs a lock
CUresult kernel_content(const CUDA_KERNEL_NODE_PARAMS& parameters, NodeContent& content);
CUresult copy_content(const CUDA_MEMCPY3D& parameters, CUcontext context, NodeContent& content);
CUresult set_content(const CUDA_MEMSET_NODE_PARAMS& parameters, CUcontext context,
                     NodeContent& content);
CUresult host_content(const CUDA_HOST_NODE_PARAMS& parameters, NodeContent& content);
CUresult event_content(CUevent event, CUgraphNodeType type, NodeContent& content);
CUresult memop_content(const CUDA_BATCH_MEM_OP_NODE_PARAMS& parameters, NodeContent& content);
CUresult alloc_content(CUDA_MEM_ALLOC_NODE_PARAMS& parameters, NodeContent& content);
CUresult free_content(CUdeviceptr address, NodeContent& content);
// Any kind but child graphs.  Sets out-parameters (alloc.dptr).
CUresult content_of(CUgraphNodeParams& parameters, NodeContent& content);

// --- nodes; these take graph_mutex() themselves
CUresult create_node(CUgraphNode* out, CUgraph graph, const std::vector<Edge>& dependencies,
                     NodeContent content);
// `child` is cloned, or becomes the node's own.
CUresult create_child_node(CUgraphNode* out, CUgraph graph, const std::vector<Edge>& dependencies,
                           CUgraph child, CUgraphChildGraphNodeOwnership ownership);
// Replaces what a node of the same type does.
CUresult set_node(CUgraphNode node, NodeContent content);
// A copy of what the node does, if it is of that type.  Keeps `work` alive beside the node.
CUresult content_of_node(CUgraphNode node, CUgraphNodeType type, NodeContent& content);

// --- nodes of executables, named by the nodes they were made from
CUresult set_exec_node(CUgraphExec exec, CUgraphNode node, NodeContent content);
CUresult set_exec_child(CUgraphExec exec, CUgraphNode node, CUgraph child);
CUresult set_exec_enabled(CUgraphExec exec, CUgraphNode node, bool enabled);
CUresult get_exec_enabled(CUgraphExec exec, CUgraphNode node, bool& enabled);

}  // namespace simgpu
