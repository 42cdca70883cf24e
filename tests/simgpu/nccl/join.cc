#include "nccl/join.h"

#include <unistd.h>

#include <cinttypes>
#include <cstdlib>
#include <cstring>

#include "nccl/debug.h"
#include "nccl/profiler.h"

namespace simgpu::nccl {
namespace {

uint64_t gpu_of(int device) {
  char bus[32] = "";
  if (cudaDeviceGetPCIBusId(bus, sizeof bus, device) != cudaSuccess) {
    snprintf(bus, sizeof bus, "%d/%d", getpid(), device);
  }
  uint64_t hash = 14695981039346656037ULL;
  for (const char* at = bus; *at; ++at) {
    hash = (hash ^ static_cast<unsigned char>(*at)) * 1099511628211ULL;
  }
  return hash;
}

ncclResult_t attach(Communicator& comm, const Stop& stop) {
  int error = 0;
  auto segment =
      Rendezvous::attach(comm.hash, comm.rank_count, comm.rank, gpu_of(comm.device), stop, error);
  if (!segment) {
    warn("rank %d could not meet its peers: %s", comm.rank, error ? strerror(error) : "aborted");
    return error ? ncclSystemError : ncclInternalError;
  }
  const std::lock_guard lock(comm.mutex);
  comm.segment = std::move(segment);
  return ncclSuccess;
}

// Two ranks on one device are a mistake that NCCL finds during init; SIMGPU_NCCL_SHARED_GPU=1
// allows it.
ncclResult_t check_devices(const Communicator& comm) {
  const char* allowed = getenv("SIMGPU_NCCL_SHARED_GPU");
  if (allowed && strcmp(allowed, "1") == 0) {
    return ncclSuccess;
  }
  bool others = false;
  for (int a = 0; a < comm.rank_count; ++a) {
    for (int b = a + 1; b < comm.rank_count; ++b) {
      if (comm.segment->cell(a).gpu.load() != comm.segment->cell(b).gpu.load()) {
        continue;
      }
      if (a == comm.rank || b == comm.rank) {
        warn("Duplicate GPU detected : rank %d and rank %d both on CUDA device %d", a, b,
             comm.device);
        return ncclInvalidUsage;
      }
      others = true;
    }
  }
  if (others) {
    warn("a peer left the initialization");
  }
  return others ? ncclRemoteError : ncclSuccess;
}

ncclResult_t meet(Communicator& comm, const Stop& stop) {
  SegmentHeader& header = comm.segment->header();
  const bool complete = wait_on(
      comm.cell().bell, [&] { return header.attached.load() == header.rank_count; },
      [&] { return stop.load(); });
  const ncclResult_t result = complete ? check_devices(comm) : ncclInternalError;
  if (result == ncclSuccess) {
    profiler_init(comm);
    take_buffer(comm);
  }
  return result;
}

}  // namespace

void add_join_phases(Job& job) {
  Communicator* comm = job.comm;
  job.phases.emplace_back([comm](const Stop& stop) { return attach(*comm, stop); });
  job.phases.emplace_back([comm](const Stop& stop) { return meet(*comm, stop); });
}

std::function<void(ncclResult_t)> finish_creation(Communicator* comm, ncclComm_t* handle,
                                                  const char* call) {
  return [comm, handle, call](ncclResult_t result) {
    if (result == ncclSuccess) {
      info("%s comm %p rank %d nranks %d cudaDev %d commId 0x%" PRIx64 " - Init COMPLETE", call,
           static_cast<void*>(comm), comm->rank, comm->rank_count, comm->device, comm->hash);
      if (comm->rank == 0) {
        print_version_once();
      }
    }
    if (!comm->config.blocking) {
      return;  // the group sets the state; `handle` may be gone by now
    }
    set_state(*comm, result);
    if (result != ncclSuccess) {
      *handle = nullptr;
      release(*comm);
    }
  };
}

}  // namespace simgpu::nccl
