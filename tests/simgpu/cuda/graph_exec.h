// Executable graphs: a graph flattened into steps on lanes, and what a launch of them is.
//
// A lane is a chain: each of its steps depends on the one before, if only indirectly, so a step
// that blocks holds up nothing that does not depend on it.  Lane 0 runs on the launching stream
// itself, the others on threads of their own; a graph that is a single chain needs none.
#pragma once
#include <cuda.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cuda/graph.h"
#include "cuda/state.h"

namespace simgpu {

// A node as it was when the executable was made or last updated.
struct ExecNode {
  uint64_t id = 0;    // of the node it was made from
  uint32_t step = 0;  // where its work is done
  bool enabled = true;
  NodeContent content;  // content.child is null: `child` below is the executable's own
  std::vector<uint32_t> dependencies;  // indices into the same graph, in edge order
  std::vector<CUgraphEdgeData> edge_data;
  bool has_dependents = false;
  std::unique_ptr<struct ExecGraph> child;
};

struct ExecGraph {
  std::vector<ExecNode> nodes;  // in the order of the graph's own
};

// The order of things: the same for all launches.
struct Layout {
  struct Step {
    uint32_t lane = 0;
    std::vector<uint32_t> dependencies;  // on steps of other lanes
  };
  std::vector<Step> steps;
  std::vector<std::vector<uint32_t>> lanes;
};

// The works of the steps: replaced as a whole when a node is updated, since launches share it.
struct StepWork {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::shared_ptr<const Work> work;  // null: nothing to do (empty, disabled, child graph, event)
  std::shared_ptr<Event> event;
};

// Where the event record nodes of an executable complete, launch after launch: one queue each.
class RecordQueues {
 public:
  explicit RecordQueues(size_t count);
  ~RecordQueues();
  const std::shared_ptr<Queue>& at(size_t index) const { return queues_[index]; }

 private:
  std::vector<std::shared_ptr<Queue>> queues_;
};

struct Plan {
  std::shared_ptr<const Layout> layout;
  std::vector<StepWork> works;
  std::vector<uint32_t> event_steps;  // record and wait nodes, in topological order
  std::vector<uint32_t> alloc_steps;
  std::shared_ptr<const RecordQueues> records;
  std::shared_ptr<const UserReferences> references;  // kept while a launch runs
};

struct Exec {
  std::mutex mutex;  // guards what follows; held while a launch waits for room in its stream
  uint64_t flags = 0;
  ExecGraph root;
  std::unordered_map<uint64_t, ExecNode*> by_id;
  bool stale = false;  // nodes were updated since `plan` was made
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const Work> launch_work;  // of `plan`, where all launches can share one
  Ticket last;                              // the last launch
};

struct InstantiateResult {
  CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  CUgraphNode node = nullptr;
};

// Needs graph_mutex().
CUresult instantiate(CUgraph graph, uint64_t flags, std::shared_ptr<Exec>& out,
                     InstantiateResult& result);
// A graph that does what the executable does: for capturing a launch.  Needs exec.mutex and
// graph_mutex().
CUgraph graph_of(const ExecGraph& exec);
// Copies a graph's nodes.  Needs graph_mutex().
ExecGraph exec_graph_of(const CUgraph_st& graph);
// Flattens.  False if there is a cycle; `stuck` is then one of its nodes.
bool lay_out(ExecGraph& graph, Layout& layout, const ExecNode*& stuck);
// Makes the works of a plan from the nodes; needs exec.mutex.
void refresh_plan(Exec& exec);

// Enqueues one run of the executable.  Needs no lock.
CUresult launch(const std::shared_ptr<Exec>& exec, Stream& stream);
// The work of a launch without events: shared by all launches of the plan.
std::shared_ptr<const Work> make_graph_work(std::shared_ptr<const Plan> plan);
// One launch: its event nodes are recorded here and now.
std::shared_ptr<const Work> make_graph_work_with_events(std::shared_ptr<const Plan> plan);

// Parameters of `to` may become those of `from` in an executable; else why not.  Needs no lock.
CUgraphExecUpdateResult check_update(const NodeContent& to, const NodeContent& from,
                                     uint64_t exec_flags);
// cuGraphExecUpdate.  Needs exec.mutex and graph_mutex().
CUresult update(Exec& exec, ExecGraph& part, const CUgraph_st& graph,
                CUgraphExecUpdateResultInfo& info);

CUresult find_exec(CUgraphExec handle, std::shared_ptr<Exec>& out);
CUgraphExec new_exec_handle(std::shared_ptr<Exec> exec);
// A launch that runs goes on; the rest is freed when it ends.
CUresult destroy_exec(CUgraphExec handle);

}  // namespace simgpu

struct CUgraphExec_st {
  std::atomic<bool> alive{false};
  std::shared_ptr<simgpu::Exec> exec;
};
