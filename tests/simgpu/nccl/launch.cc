// Puts the work of a communicator on a stream: one kernel, launched like a kernel of the real
// library.
#include <cuda_runtime_api.h>
#include <simgpu.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "common/entry.h"
#include "nccl/debug.h"
#include "nccl/group.h"
#include "nccl/kernel.h"
#include "nccl/profiler.h"

// What nvcc calls for a program with kernels; no public header declares them.
extern "C" {
void** __cudaRegisterFatBinary(void* fat_binary);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFunction(void** handle, const char* host_function, char* device_function,
                            const char* device_name, int thread_limit, uint3* thread, uint3* block,
                            dim3* block_size, dim3* grid_size, int* warp_size);
}

namespace simgpu::nccl {
namespace {

constexpr int kErrorIllegalAddress = 700;  // CUDA_ERROR_ILLEGAL_ADDRESS
constexpr unsigned kThreads = 512;

// The fat binary of this library: a header and nothing behind it.
struct FatBinaryHeader {
  uint32_t magic = 0xba55ed50;
  uint16_t version = 1;
  uint16_t header_bytes = 16;
  uint64_t bytes = 0;
};
struct FatBinaryWrapper {
  int magic = 0x466243b1;
  int version = 1;
  const void* data = nullptr;
  void* file_or_null = nullptr;
};

const char* short_name(ncclDataType_t type) {
  constexpr const char* kNames[] = {"i8",  "u8",  "i32", "u32",  "i64",    "u64",
                                    "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2"};
  return kNames[type];
}

// Integers of one width share a kernel, except where their order matters.
std::string reduction_name(Reduction::Kind kind, ncclDataType_t type) {
  const bool ordered = kind == Reduction::Kind::kMin || kind == Reduction::Kind::kMax;
  constexpr const char* kNames[] = {"Sum", "Prod", "MinMax", "MinMax", "PreMulSum", "SumPostDiv"};
  std::string name = short_name(type);
  if (!ordered && name[0] == 'i') {
    name[0] = 'u';
  }
  return std::string(kNames[static_cast<int>(kind)]) + "_" + name;
}

std::string kernel_name(const Pending& pending) {
  std::string name = "SendRecv";
  if (!pending.collectives.empty()) {
    const Operation& first = pending.collectives.front();
    constexpr const char* kFunctions[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                          "AllReduce"};
    name = kFunctions[static_cast<int>(first.function)];
    if (reduces(first.function)) {
      name += "_" + reduction_name(first.reduction.kind, first.type);
    }
    name += first.algorithm == Algorithm::kTree ? "_TREE_LL" : "_RING_LL";
  }
  name = "ncclDevKernel_" + name;
  return "_Z" + std::to_string(name.size()) + name + "24ncclDevKernelArgsStorageILm4096EE";
}

// One kernel at a time for each communicator, whatever streams they were launched on.
class Turn {
 public:
  explicit Turn(const KernelRun& run) : comm_(run.comm()) {
    has_ = wait_on(
        comm_.local_bell,
        [&] {
          bool expected = false;
          return comm_.running.compare_exchange_strong(expected, true);
        },
        [&] { return run.stopped(); });
  }
  ~Turn() {
    if (has_) {
      comm_.running.store(false);
      comm_.local_bell.ring();
    }
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  explicit operator bool() const { return has_; }

 private:
  Communicator& comm_;
  bool has_ = false;
};

// SIMGPU_NCCL_RESIDENT=N: the SMs of a device have room for N kernels of NCCL at a time.
class Room {
 public:
  explicit Room(const KernelRun& run) : bell_(bell()), taken_(taken_on(run.comm().device)) {
    has_ = wait_on(
        bell_, [&] { return take(); }, [&] { return run.stopped(); });
  }
  ~Room() {
    if (has_) {
      taken_.fetch_sub(1);
      bell_.ring();
    }
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  explicit operator bool() const { return has_; }

 private:
  static int most() {
    const char* text = getenv("SIMGPU_NCCL_RESIDENT");
    return text && atoi(text) > 0 ? atoi(text) : INT_MAX;
  }
  static Bell& bell() {
    static Bell& value = *new Bell;
    return value;
  }
  static std::atomic<int>& taken_on(int device) {
    static auto& taken = *new std::map<int, std::atomic<int>>;
    static std::mutex& mutex = *new std::mutex;
    const std::lock_guard lock(mutex);
    return taken[device];
  }
  bool take() {
    static const int limit = most();
    int now = taken_.load();
    while (now < limit) {
      if (taken_.compare_exchange_weak(now, now + 1)) {
        return true;
      }
    }
    return false;
  }

  Bell& bell_;
  std::atomic<int>& taken_;
  bool has_ = false;
};

bool lacks_buffer(const Operation& operation, int rank) {
  const bool root = operation.root == rank;
  switch (operation.function) {
    case Function::kSend:
      return !operation.send;
    case Function::kRecv:
      return !operation.receive;
    case Function::kBroadcast:
      return !operation.receive || (root && !operation.send);
    case Function::kReduce:
      return !operation.send || (root && !operation.receive);
    default:
      return !operation.send || !operation.receive;
  }
}

bool run_followed(const KernelRun& run, const Operation& operation) {
  void* const event = profiler_channel_begins(run.comm(), operation);
  if (!may_move(run) || !run_collective(run, operation)) {
    return false;
  }
  profiler_channel_ends(event);
  return true;
}

void follow_tasks(Plan& plan) {
  for (auto* list : {&plan.collectives, &plan.transfers}) {
    for (Operation& operation : *list) {
      operation.task_event = profiler_task_begins(*plan.comm, operation);
    }
  }
}

// SIMGPU_NCCL_US=N: what a plan takes once the last of its members has begun.  All of them end it
// at the same time then, whenever their threads got to run.
void linger(const KernelRun& run, long long& end_ns) {
  static const long us = [] {
    const char* text = getenv("SIMGPU_NCCL_US");
    return text ? atol(text) : 0;
  }();
  if (us <= 0) {
    return;
  }
  const std::chrono::steady_clock::time_point end(
      std::chrono::nanoseconds(run.latest_ns() + us * 1000));
  constexpr auto kLook = std::chrono::milliseconds(10);
  while (!run.stopped() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_until(std::min(end, std::chrono::steady_clock::now() + kLook));
  }
  if (!run.stopped()) {
    end_ns = end.time_since_epoch().count();
  }
}

int run_plan(const Plan& plan, const simgpuLaunch& launch) {
  Communicator& comm = *plan.comm;
  const KernelRun run(comm, plan.captured ? comm.epoch.load() : plan.epoch, launch);
  const Turn turn(run);
  if (!turn || run.stopped() || comm.magic.load() != kLive || comm.revoked.load()) {
    return 0;
  }
  const Room room(run);
  if (!room) {
    return 0;
  }
  for (const auto* list : {&plan.collectives, &plan.transfers}) {
    for (const Operation& operation : *list) {
      if (lacks_buffer(operation, comm.rank)) {
        return kErrorIllegalAddress;
      }
      if (!begin_operation(run)) {
        return 0;
      }
      if (!is_transfer(operation.function) && !run_followed(run, operation)) {
        return 0;
      }
    }
  }
  std::vector<void*> events;
  for (const Operation& operation : plan.transfers) {
    events.push_back(profiler_channel_begins(comm, operation));
  }
  if (run_transfers(run, plan.transfers)) {
    std::for_each(events.begin(), events.end(), profiler_channel_ends);
  }
  linger(run, *launch.end_ns);
  return 0;
}

int kernel_body(void* const* arguments, const simgpuLaunch* launch, void*) {
  Plan* plan = *static_cast<Plan* const*>(arguments[0]);
  const int result = run_plan(*plan, *launch);
  if (!plan->captured) {
    Communicator& comm = *plan->comm;
    const std::lock_guard lock(comm.mutex);
    std::erase_if(comm.plans, [&](const auto& owned) { return owned.get() == plan; });
  }
  return result;
}

// The host functions by which the runtime knows the kernels: never called, only different.
class Kernels {
 public:
  Kernels() {
    static const FatBinaryHeader& header = *new FatBinaryHeader;
    static FatBinaryWrapper& wrapper = *new FatBinaryWrapper{.data = &header};
    module_ = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFatBinaryEnd(module_);
    const size_t parameter_bytes[] = {sizeof(void*)};
    simgpu_register("_Z*ncclDevKernel_*", kernel_body, nullptr, 1, parameter_bytes);
  }
  const void* find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    auto [entry, added] = functions_.try_emplace(name, 0);
    if (added) {
      __cudaRegisterFunction(module_, &entry->second, const_cast<char*>(entry->first.c_str()),
                             entry->first.c_str(), -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    }
    return &entry->second;
  }

 private:
  void** module_ = nullptr;
  std::mutex mutex_;
  std::map<std::string, char> functions_;
};

Kernels& kernels() {
  static Kernels& value = *new Kernels;
  return value;
}

// `later` waits for all that is on `earlier` now.
cudaError_t order(cudaStream_t earlier, cudaStream_t later) {
  cudaEvent_t event = nullptr;
  cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (error != cudaSuccess) {
    return error;
  }
  error = cudaEventRecord(event, earlier);
  if (error == cudaSuccess) {
    error = cudaStreamWaitEvent(later, event, 0);
  }
  cudaEventDestroy(event);
  return error;
}

struct Capture {
  bool active = false;
  unsigned long long id = 0;
};

unsigned long long id_of(cudaStream_t stream) {
  unsigned long long id = 0;
  return cudaStreamGetId(stream, &id) == cudaSuccess ? id : 0;
}

cudaError_t capture_of(cudaStream_t stream, Capture& capture) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error =
      cudaStreamGetCaptureInfo(stream, &status, &capture.id, nullptr, nullptr, nullptr, nullptr);
  capture.active = status == cudaStreamCaptureStatusActive;
  return error;
}

cudaError_t follow_previous(Communicator& comm, cudaStream_t stream, const Capture& capture) {
  if (capture.active) {
    const bool same = comm.capture_event && comm.capture_id == capture.id;
    return same && comm.capture_stream != stream
               ? cudaStreamWaitEvent(stream, comm.capture_event, 0)
               : cudaSuccess;
  }
  return comm.last_event && comm.last_stream != id_of(stream)
             ? cudaStreamWaitEvent(stream, comm.last_event, 0)
             : cudaSuccess;
}

cudaError_t mark_last(Communicator& comm, cudaStream_t stream, const Capture& capture) {
  cudaEvent_t& event = capture.active ? comm.capture_event : comm.last_event;
  if (!event) {
    const cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (error != cudaSuccess) {
      return error;
    }
  }
  if (capture.active) {
    comm.capture_stream = stream;
    comm.capture_id = capture.id;
  } else {
    comm.last_stream = id_of(stream);
  }
  return cudaEventRecord(event, stream);
}

Plan* keep_plan(Pending& pending, bool captured) {
  Communicator& comm = *pending.comm;
  auto plan =
      std::make_unique<Plan>(Plan{&comm, comm.epoch.load(), captured,
                                  std::move(pending.collectives), std::move(pending.transfers)});
  const std::lock_guard lock(comm.mutex);
  return comm.plans.emplace_back(std::move(plan)).get();
}

cudaError_t launch_kernel(Pending& pending, bool captured) {
  const void* function = kernels().find(kernel_name(pending));
  Plan* plan = keep_plan(pending, captured);
  follow_tasks(*plan);
  void* arguments[] = {&plan};
  cudaLaunchConfig_t config{};
  config.gridDim = {1, 1, 1};
  config.blockDim = {kThreads, 1, 1};
  config.stream = pending.streams.front();
  return cudaLaunchKernelExC(&config, function, arguments);
}

}  // namespace

ncclResult_t launch(Pending& pending) {
  Communicator& comm = *pending.comm;
  const cudaStream_t stream = pending.streams.front();
  Capture capture;
  cudaError_t error = capture_of(stream, capture);
  for (size_t i = 1; i < pending.streams.size() && error == cudaSuccess; ++i) {
    error = order(pending.streams[i], stream);
  }
  if (error == cudaSuccess) {
    error = follow_previous(comm, stream, capture);
  }
  if (error == cudaSuccess) {
    error = launch_kernel(pending, capture.active);
  }
  if (error == cudaSuccess) {
    error = mark_last(comm, stream, capture);
  }
  for (size_t i = 1; i < pending.streams.size() && error == cudaSuccess; ++i) {
    error = order(stream, pending.streams[i]);
  }
  if (error != cudaSuccess) {
    warn("Cuda failure %d '%s'", error, cudaGetErrorString(error));
    return ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

}  // namespace simgpu::nccl
