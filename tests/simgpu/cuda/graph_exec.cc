// Making executables, keeping their plans up to date, launching.
#include "cuda/graph_exec.h"

#include <algorithm>

#include "cuda/capture.h"
#include "cuda/graph_memory.h"

namespace simgpu {
namespace {

void index_nodes(ExecGraph& graph, std::unordered_map<uint64_t, ExecNode*>& by_id) {
  for (ExecNode& node : graph.nodes) {
    by_id[node.id] = &node;
    if (node.child) {
      index_nodes(*node.child, by_id);
    }
  }
}

void fill_works(const ExecGraph& graph, Plan& plan) {
  for (const ExecNode& node : graph.nodes) {
    if (node.child) {
      fill_works(*node.child, plan);
    } else if (node.enabled) {
      plan.works[node.step] = {node.content.type, node.content.work, node.content.event};
    }
  }
}

// Event nodes are taken in topological order, so that a wait sees the recording of a node before
// it. Steps have been numbered in that order.
void list_special_steps(Plan& plan) {
  for (uint32_t step = 0; step < plan.works.size(); ++step) {
    const StepWork& work = plan.works[step];
    if (work.event) {
      plan.event_steps.push_back(step);
    } else if (work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
      plan.alloc_steps.push_back(step);
    }
  }
}

size_t count_records(const ExecGraph& graph) {
  size_t count = 0;
  for (const ExecNode& node : graph.nodes) {
    count += node.content.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    count += node.child ? count_records(*node.child) : 0;
  }
  return count;
}

// Which nodes a graph launched from the device may have.
CUgraphNode unfit_for_device(const CUgraph_st& graph) {
  for (CUgraphNode node : graph.nodes) {
    if (CUgraph child = node->content.child) {
      if (CUgraphNode unfit = unfit_for_device(*child)) {
        return unfit;
      }
    } else if (node->content.type > CU_GRAPH_NODE_TYPE_MEMSET) {
      return node;
    }
  }
  return nullptr;
}

CUresult check_instantiable(CUgraph graph, uint64_t flags, InstantiateResult& result) {
  constexpr uint64_t kKnown =
      CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
      CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  const bool for_device = flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  result = {CUDA_GRAPH_INSTANTIATE_ERROR, nullptr};
  if ((flags & ~kKnown) || graph->captures > 0 || graph->moved ||
      (for_device && (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (has_memory_nodes(*graph, true) && !graph->executable.expired()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (for_device) {
    result = {CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, unfit_for_device(*graph)};
    if (result.node) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    result = {CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, nullptr};
    if (graph->nodes.empty()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  result = {};
  return CUDA_SUCCESS;
}

CUgraphNode find_node(const CUgraph_st& graph, uint64_t id) {
  for (CUgraphNode node : graph.nodes) {
    if (node->id == id) {
      return node;
    }
    if (node->content.child) {
      if (CUgraphNode found = find_node(*node->content.child, id)) {
        return found;
      }
    }
  }
  return nullptr;
}

void collect_references(const CUgraph_st& graph, std::map<CUuserObject, unsigned>& counts) {
  for (const auto& [object, count] : graph.references->counts()) {
    counts[object] += count;
  }
  for (CUgraphNode node : graph.nodes) {
    if (node->content.child) {
      collect_references(*node->content.child, counts);
    }
  }
}

// Memory that the last launch left allocated, and memory for this one.
CUresult prepare_memory(const Plan& plan, bool auto_free, Stream& stream) {
  const auto live = [&](uint32_t step) { return graph_memory_live(*plan.works[step].work); };
  if (std::any_of(plan.alloc_steps.begin(), plan.alloc_steps.end(), live)) {
    // What is queued may free it, and it must not be freed under work that uses it.
    submit_now(stream, nullptr).wait();
  }
  for (uint32_t step : plan.alloc_steps) {
    if (live(step) && !auto_free) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (live(step)) {
      graph_memory_free(*plan.works[step].work);
    }
  }
  for (uint32_t step : plan.alloc_steps) {
    SIMGPU_TRY(graph_memory_commit(*plan.works[step].work));
  }
  return CUDA_SUCCESS;
}

CUresult capture_launch(Exec& exec, Stream& stream) {
  Garbage garbage;  // dropped after the locks
  const std::scoped_lock lock(exec.mutex, graph_mutex());
  NodeContent content;
  content.type = CU_GRAPH_NODE_TYPE_GRAPH;
  content.child = graph_of(exec.root);
  CUgraph child = content.child;
  const CUresult result = capture_add_locked(stream, std::move(content));
  if (result != CUDA_SUCCESS) {
    destroy_graph(child, garbage);
  }
  return result;
}

Slots<CUgraphExec_st>& exec_slots() {
  static Slots<CUgraphExec_st>& slots = *new Slots<CUgraphExec_st>;
  return slots;
}

}  // namespace

ExecGraph exec_graph_of(const CUgraph_st& graph) {
  std::unordered_map<CUgraphNode, uint32_t> index;
  ExecGraph out;
  for (CUgraphNode node : graph.nodes) {
    index[node] = out.nodes.size();
    ExecNode& copy = out.nodes.emplace_back();
    copy.id = node->id;
    copy.content = node->content;
    copy.content.child = nullptr;
    copy.has_dependents = !node->dependents.empty();
    if (node->content.child) {
      copy.child = std::make_unique<ExecGraph>(exec_graph_of(*node->content.child));
    }
  }
  for (CUgraphNode node : graph.nodes) {
    ExecNode& copy = out.nodes[index[node]];
    for (const Edge& edge : node->dependencies) {
      copy.dependencies.push_back(index[edge.node]);
      copy.edge_data.push_back(edge.data);
    }
  }
  return out;
}

CUgraph graph_of(const ExecGraph& exec) {
  CUgraph graph = new_graph();
  for (const ExecNode& node : exec.nodes) {
    NodeContent content = node.content;
    if (node.child) {
      content.child = graph_of(*node.child);
    } else if (!node.enabled) {
      content = {};
    }
    append_node(graph, {}, std::move(content));
  }
  for (size_t i = 0; i < exec.nodes.size(); ++i) {
    for (size_t k = 0; k < exec.nodes[i].dependencies.size(); ++k) {
      CUgraphNode from = graph->nodes[exec.nodes[i].dependencies[k]];
      graph->nodes[i]->dependencies.push_back({from, exec.nodes[i].edge_data[k]});
      from->dependents.push_back({graph->nodes[i], exec.nodes[i].edge_data[k]});
    }
  }
  return graph;
}

void refresh_plan(Exec& exec) {
  auto plan = std::make_shared<Plan>();
  plan->layout = exec.plan->layout;
  plan->records = exec.plan->records;
  plan->references = exec.plan->references;
  plan->works.resize(plan->layout->steps.size());
  fill_works(exec.root, *plan);
  list_special_steps(*plan);
  const bool same_for_all = plan->event_steps.empty();
  exec.launch_work = same_for_all ? make_graph_work(plan) : nullptr;
  exec.plan = std::move(plan);
  exec.stale = false;
}

CUresult instantiate(CUgraph graph, uint64_t flags, std::shared_ptr<Exec>& out,
                     InstantiateResult& result) {
  SIMGPU_TRY(check_instantiable(graph, flags, result));
  auto exec = std::make_shared<Exec>();
  exec->flags = flags & ~static_cast<uint64_t>(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
  exec->root = exec_graph_of(*graph);
  auto layout = std::make_shared<Layout>();
  const ExecNode* stuck = nullptr;
  if (!lay_out(exec->root, *layout, stuck)) {
    result = {CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, find_node(*graph, stuck->id)};
    return CUDA_ERROR_INVALID_VALUE;
  }
  index_nodes(exec->root, exec->by_id);
  std::map<CUuserObject, unsigned> references;
  collect_references(*graph, references);
  auto plan = std::make_shared<Plan>();
  plan->records = std::make_shared<RecordQueues>(count_records(exec->root));
  plan->references = std::make_shared<UserReferences>(references);
  plan->layout = std::move(layout);
  exec->plan = std::move(plan);
  refresh_plan(*exec);
  graph->executable = exec;
  out = std::move(exec);
  return CUDA_SUCCESS;
}

CUresult launch(const std::shared_ptr<Exec>& exec, Stream& stream) {
  if (stream.capturing.load()) {
    return capture_launch(*exec, stream);
  }
  if (stream.legacy) {
    SIMGPU_TRY(forbid_legacy_while_capturing(*stream.context));
  }
  const std::lock_guard lock(exec->mutex);
  if (exec->stale) {
    refresh_plan(*exec);
  }
  if (!exec->plan->alloc_steps.empty()) {
    SIMGPU_TRY(prepare_memory(
        *exec->plan, exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, stream));
  }
  std::vector<Ticket> dependencies;
  if (!exec->last.done() && exec->last.queue != stream.queue) {
    dependencies.push_back(exec->last);
  }
  std::shared_ptr<const Work> work =
      exec->launch_work ? exec->launch_work : make_graph_work_with_events(exec->plan);
  exec->last = submit_now(stream, std::move(work), std::move(dependencies));
  return CUDA_SUCCESS;
}

CUresult find_exec(CUgraphExec handle, std::shared_ptr<Exec>& out) {
  const std::lock_guard lock(graph_mutex());
  if (!handle || !handle->alive.load()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  out = handle->exec;
  return CUDA_SUCCESS;
}

CUgraphExec new_exec_handle(std::shared_ptr<Exec> exec) {
  CUgraphExec handle = exec_slots().take();
  const std::lock_guard lock(graph_mutex());
  handle->exec = std::move(exec);
  handle->alive.store(true);
  return handle;
}

CUresult destroy_exec(CUgraphExec handle) {
  std::shared_ptr<Exec> dropped;  // outlives the lock
  {
    const std::lock_guard lock(graph_mutex());
    if (!handle || !handle->alive.exchange(false)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    dropped = std::move(handle->exec);
    handle->exec.reset();
  }
  exec_slots().give(handle);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
