// A training job made up from a seed, of which one rank does something else once: `made_up SEED
// FAULT RANK`.  The others go on as if nothing were, until they hang or are through.
#include <nccl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "common/buffer.h"
#include "common/nccl_ranks.h"
#include "made_up_plan.h"

namespace {

constexpr size_t kMany = 1 << 16;
constexpr ncclDataType_t kTypeOf[kTypes] = {ncclFloat, ncclHalf, ncclInt32};
constexpr ncclRedOp_t kReductionOf[kReductions] = {ncclSum, ncclMax};

struct Axis {
  ncclComm_t comm = nullptr;
  int size = 0;
  int rank = 0;
};

struct Lane {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
};

struct Job {
  std::vector<Axis> axes;
  std::vector<Lane> lanes;
  DeviceBuffer<float> from{std::vector<float>(kMany, 1)};
  DeviceBuffer<float> to{std::vector<float>(kMany, 0)};
  std::vector<cudaGraphExec_t> graphs;
  std::mt19937 own;  // differs from rank to rank

  Job(const Plan& plan, unsigned seed);
};

// An operation, and what it refers to.
struct Call {
  Job& job;
  const Operation& operation;
  const Axis& axis = job.axes[operation.axis];
  const Lane& lane = job.lanes[operation.stream];
  size_t count = operation.count;
  ncclDataType_t type = kTypeOf[operation.type];
  ncclRedOp_t reduction = kReductionOf[operation.reduction];
  int root = operation.root % axis.size;
  float* from = job.from.data();
  float* to = job.to.data();

  void send(int peer) const {
    NCCL_CHECK(ncclSend(from, count, type, peer, axis.comm, lane.stream));
  }
  void receive(int peer) const {
    NCCL_CHECK(ncclRecv(to, count, type, peer, axis.comm, lane.stream));
  }
  void all_reduce() const {
    NCCL_CHECK(ncclAllReduce(from, to, count, type, reduction, axis.comm, lane.stream));
  }
  void collective() const;
};

void Call::collective() const {
  switch (operation.kind) {
    case Kind::kAllGather:
      NCCL_CHECK(ncclAllGather(from, to, count, type, axis.comm, lane.stream));
      break;
    case Kind::kReduceScatter:
      NCCL_CHECK(ncclReduceScatter(from, to, count, type, reduction, axis.comm, lane.stream));
      break;
    case Kind::kBroadcast:
      NCCL_CHECK(ncclBroadcast(from, to, count, type, root, axis.comm, lane.stream));
      break;
    case Kind::kReduce:
      NCCL_CHECK(ncclReduce(from, to, count, type, reduction, root, axis.comm, lane.stream));
      break;
    default:
      all_reduce();
  }
}

void group(const Call& call) {
  NCCL_CHECK(ncclGroupStart());
  for (int i = 0; i < call.operation.times; ++i) {
    call.all_reduce();
  }
  NCCL_CHECK(ncclGroupEnd());
}

void ring(const Call& call) {
  const auto [comm, size, rank] = call.axis;
  NCCL_CHECK(ncclGroupStart());
  call.send((rank + 1) % size);
  call.receive((rank + size - 1) % size);
  NCCL_CHECK(ncclGroupEnd());
}

// Two ranks each; the last of an odd number has nobody.
void pairs(const Call& call) {
  const int peer = call.axis.rank ^ 1;
  if (peer >= call.axis.size) {
    return;
  }
  if (call.axis.rank % 2 == 0) {
    call.send(peer);
    call.receive(peer);
  } else {
    call.receive(peer);
    call.send(peer);
  }
}

void allocate() {
  void* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, 1 << 20));
  CUDA_CHECK(cudaFree(memory));
}

void copy(const Call& call) {
  float values[16];
  CUDA_CHECK(
      cudaMemcpyAsync(values, call.to, sizeof values, cudaMemcpyDeviceToHost, call.lane.stream));
  CUDA_CHECK(cudaStreamSynchronize(call.lane.stream));
}

void wait_on_next_lane(const Call& call) {
  const auto& lanes = call.job.lanes;
  const Lane& next = lanes[(call.operation.stream + 1) % lanes.size()];
  CUDA_CHECK(cudaEventRecord(call.lane.event, call.lane.stream));
  CUDA_CHECK(cudaStreamWaitEvent(next.stream, call.lane.event, 0));
}

void query(const Call& call) {
  CUDA_CHECK(cudaEventRecord(call.lane.event, call.lane.stream));
  while (cudaEventQuery(call.lane.event) == cudaErrorNotReady) {
    usleep(100);
  }
}

void make(const Call& call) {
  switch (call.operation.kind) {
    case Kind::kGroup:
      return group(call);
    case Kind::kRing:
      return ring(call);
    case Kind::kPairs:
      return pairs(call);
    case Kind::kStreamSynchronize:
      CUDA_CHECK(cudaStreamSynchronize(call.lane.stream));
      return;
    case Kind::kDeviceSynchronize:
      CUDA_CHECK(cudaDeviceSynchronize());
      return;
    case Kind::kAllocate:
      return allocate();
    case Kind::kCopy:
      return copy(call);
    case Kind::kSleep:
      usleep(call.job.own() % 20'000);
      return;
    case Kind::kEvent:
      return wait_on_next_lane(call);
    case Kind::kQuery:
      return query(call);
    case Kind::kGraph:
      CUDA_CHECK(cudaGraphLaunch(call.job.graphs[call.operation.graph], call.lane.stream));
      return;
    default:
      return call.collective();
  }
}

// Lines of its program that a job calls from.  Each differs, else the compiler makes them one.
template <int Site>
[[gnu::noinline]] void call_from(Job& job, const Operation& operation) {
  make({job, operation});
  asm volatile("" ::"i"(Site));
}
constexpr decltype(&call_from<0>) kCallFrom[kSites] = {call_from<0>, call_from<1>, call_from<2>,
                                                       call_from<3>, call_from<4>, call_from<5>,
                                                       call_from<6>, call_from<7>};

[[gnu::noinline]] void call_by_mistake(Job& job, const Operation& operation) {
  kCallFrom[operation.site](job, operation);
  asm volatile("");
}

void call(Job& job, const Operation& operation) {
  if (operation.by_mistake) {
    call_by_mistake(job, operation);
  } else {
    kCallFrom[operation.site](job, operation);
  }
}

std::vector<Axis> make_axes(const Plan& plan) {
  const int rank = world_rank();
  std::vector<Axis> axes = {{world_communicator(), world_size(), rank}};
  for (const Split& split : plan.splits) {
    const int color = split.by == 0 ? 0 : split.by == 1 ? rank % 2 : rank / 2;
    Axis axis;
    NCCL_CHECK(
        ncclCommSplit(axes[0].comm, color, split.reversed ? -rank : rank, &axis.comm, nullptr));
    NCCL_CHECK(ncclCommCount(axis.comm, &axis.size));
    NCCL_CHECK(ncclCommUserRank(axis.comm, &axis.rank));
    axes.push_back(axis);
  }
  return axes;
}

std::vector<Lane> make_lanes(int count) {
  std::vector<Lane> lanes(count);
  for (Lane& lane : lanes) {
    CUDA_CHECK(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreateWithFlags(&lane.event, cudaEventDisableTiming));
  }
  return lanes;
}

cudaGraphExec_t capture(const Call& call) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t instance = nullptr;
  CUDA_CHECK(cudaStreamBeginCapture(call.lane.stream, cudaStreamCaptureModeThreadLocal));
  call.all_reduce();
  CUDA_CHECK(cudaStreamEndCapture(call.lane.stream, &graph));
  CUDA_CHECK(cudaGraphInstantiate(&instance, graph, 0));
  return instance;
}

Job::Job(const Plan& plan, unsigned seed)
    : axes(make_axes(plan)), lanes(make_lanes(plan.streams)), own(seed * 100 + world_rank()) {
  for (const Operation& operation : plan.step) {
    if (operation.kind == Kind::kGraph) {
      graphs.push_back(capture({*this, operation}));
    }
  }
}

void never_return(void*) {
  for (;;) {
    pause();
  }
}

void pause_shortly(void*) {
  usleep(1'200'000);
}

void never_enough_memory() {
  void* memory = nullptr;
  while (cudaMalloc(&memory, size_t{1} << 50) != cudaSuccess) {
    (void)cudaGetLastError();
    usleep(100'000);
  }
}

// Of the faults those that are no other call; the others are in the step (mistaken_step).
void misbehave(const Job& job, const std::string& fault, cudaStream_t stream) {
  if (fault == "kill") {
    raise(SIGKILL);
  } else if (fault == "crash") {
    raise(SIGSEGV);
  } else if (fault == "exit" || fault == "fail") {
    _exit(fault == "fail");
  } else if (fault == "abort") {
    NCCL_CHECK(ncclCommAbort(job.axes[0].comm));
    _exit(1);
  } else if (fault == "stuck") {
    never_return(nullptr);
  } else if (fault == "pause") {
    pause_shortly(nullptr);
  } else if (fault == "late") {
    sleep(7);
  } else if (fault == "function") {
    CUDA_CHECK(cudaLaunchHostFunc(stream, never_return, nullptr));
  } else if (fault == "slow-function") {
    CUDA_CHECK(cudaLaunchHostFunc(stream, pause_shortly, nullptr));
  } else if (fault == "oom") {
    never_enough_memory();
  }
}

void faulty_step(Job& job, const Plan& plan, const std::string& fault) {
  const std::vector<Operation> step = mistaken_step(plan, fault);
  for (size_t i = 0; i < step.size(); ++i) {
    if (i == plan.fault_at) {
      misbehave(job, fault, job.lanes[step[i].stream].stream);
    }
    call(job, step[i]);
  }
}

void run(Job& job, const Plan& plan, const std::string& fault, bool culprit) {
  for (int number = 0; number < plan.steps; ++number) {
    if (culprit && number == plan.fault_step) {
      faulty_step(job, plan, fault);
      continue;
    }
    for (const Operation& operation : plan.step) {
      call(job, operation);
    }
  }
  CUDA_CHECK(cudaDeviceSynchronize());
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 4, "usage: made_up SEED FAULT RANK");
  const auto seed = static_cast<unsigned>(atoi(argv[1]));
  select_device();
  const Plan plan = make_plan(seed, world_size());
  Job job(plan, seed);
  run(job, plan, argv[2], atoi(argv[3]) == world_rank());
  if (!plan.finishes) {
    _exit(0);
  }
  for (cudaGraphExec_t graph : job.graphs) {
    CUDA_CHECK(cudaGraphExecDestroy(graph));
  }
  for (size_t i = job.axes.size(); i-- > 0;) {
    finish(job.axes[i].comm);
  }
  return 0;
}
