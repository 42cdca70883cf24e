#include "nccl/comm.h"

#include <cstdlib>

#include "nccl/debug.h"
#include "nccl/profiler.h"

namespace simgpu::nccl {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<Communicator>> communicators;
};

Registry& registry() {
  static Registry& value = *new Registry;
  return value;
}

}  // namespace

Communicator* new_communicator(int device, const Config& config) {
  auto comm = std::make_unique<Communicator>();
  comm->device = device;
  comm->config = config;
  const std::lock_guard lock(registry().mutex);
  comm->serial = static_cast<int>(registry().communicators.size());
  return registry().communicators.emplace_back(std::move(comm)).get();
}

void set_place(Communicator& comm, uint64_t hash, int rank, int rank_count) {
  comm.hash = hash;
  comm.rank = rank;
  comm.rank_count = rank_count;
  const auto ranks = static_cast<size_t>(rank_count);
  comm.connections.send.resize(ranks);
  comm.connections.receive.resize(ranks);
  comm.send_sequence.resize(ranks);
  comm.receive_sequence.resize(ranks);
}

void take_buffer(Communicator& comm) {
  static const size_t bytes = [] {
    const char* text = getenv("SIMGPU_NCCL_BUFFERS");
    return text ? strtoull(text, nullptr, 10) : 0;
  }();
  int current = 0;
  void* buffer = nullptr;
  if (bytes == 0 || cudaGetDevice(&current) != cudaSuccess) {
    return;
  }
  cudaSetDevice(comm.device);
  if (cudaMalloc(&buffer, bytes) == cudaSuccess) {
    const std::lock_guard lock(comm.mutex);
    comm.buffers.push_back(buffer);
  }
  cudaSetDevice(current);
}

ncclResult_t check_pointer(const void* pointer, const char* call, const char* what) {
  if (!pointer) {
    warn("%s : %s argument is NULL", call, what);
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

ncclResult_t check_comm(const Communicator* comm, const char* call) {
  if (const ncclResult_t result = check_pointer(comm, call, "comm"); result != ncclSuccess) {
    return result;
  }
  if (comm->magic.load(std::memory_order_acquire) != kLive) {
    warn("%s : communicator %p is corrupted or was destroyed", call,
         static_cast<const void*>(comm));
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

ncclResult_t check_ready(Communicator* comm, const char* call) {
  if (const ncclResult_t result = check_comm(comm, call); result != ncclSuccess) {
    return result;
  }
  const ncclResult_t state = comm->state.load(std::memory_order_acquire);
  if (state == ncclInProgress) {
    warn("%s : attempt to use a communicator before the previous operation returned ncclSuccess",
         call);
    return ncclInvalidArgument;
  }
  return state;
}

void set_state(Communicator& comm, ncclResult_t state) {
  comm.state.store(state, std::memory_order_release);
  comm.local_bell.ring();
}

void stop_everything(Communicator& comm) {
  comm.epoch.fetch_add(1);
  comm.local_bell.ring();
  const std::lock_guard lock(comm.mutex);
  if (comm.group_stop) {
    comm.group_stop->store(true);
  }
  if (comm.segment) {
    comm.cell().bell.ring();
  }
}

void wait_idle(Communicator& comm, bool groups) {
  wait_on(
      comm.local_bell, [&] { return !comm.running.load() && (!groups || comm.busy.load() == 0); },
      [] { return false; });
}

ncclResult_t wait_launched(Communicator& comm) {
  if (!comm.last_event) {
    return ncclSuccess;
  }
  // Waiting is no part of what the caller may be capturing.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  const cudaError_t error = cudaEventSynchronize(comm.last_event);
  cudaThreadExchangeStreamCaptureMode(&mode);
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

void release(Communicator& comm) {
  // A kernel that comes later finds the communicator dead when it has its turn.
  comm.magic.store(0, std::memory_order_release);
  bool expected = false;
  wait_on(
      comm.local_bell,
      [&] {
        expected = false;
        return comm.running.compare_exchange_strong(expected, true);
      },
      [] { return false; });
  profiler_finalize(comm);
  for (cudaEvent_t event : {comm.last_event, comm.capture_event}) {
    if (event) {
      cudaEventDestroy(event);
    }
  }
  comm.last_event = comm.capture_event = nullptr;
  {
    const std::lock_guard lock(comm.mutex);
    if (comm.segment) {
      Rendezvous::withdraw(comm.hash, *comm.segment);
    }
    comm.segment.reset();
    for (void* const buffer : comm.buffers) {
      cudaFree(buffer);
    }
    comm.buffers.clear();
  }
  comm.running.store(false);
  comm.local_bell.ring();
}

}  // namespace simgpu::nccl
