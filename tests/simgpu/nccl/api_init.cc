#include <vector>

#include "nccl/api.h"
#include "nccl/debug.h"
#include "nccl/identity.h"
#include "nccl/join.h"

namespace simgpu::nccl {
namespace {

ncclResult_t check_place(const char* call, int rank_count, int rank) {
  if (rank_count < 1 || rank < 0 || rank >= rank_count) {
    warn("%s : invalid rank requested : %d/%d", call, rank, rank_count);
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

// Creates the context of the current device, as any use of it would.
ncclResult_t current_device(int& device) {
  if (cudaFree(nullptr) != cudaSuccess || cudaGetDevice(&device) != cudaSuccess) {
    warn("Cuda failure '%s'", cudaGetErrorString(cudaPeekAtLastError()));
    return ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

struct Init {
  const char* call;
  int rank_count;
  int rank;
  int id_count;
  const ncclUniqueId* ids;
  const ncclConfig_t* config;
};

ncclResult_t check(const Init& init, const ncclComm_t* handle, Config& config) {
  ncclResult_t result = check_pointer(handle, init.call, "newcomm");
  result = result == ncclSuccess ? check_pointer(init.ids, init.call, "commIds") : result;
  result = result == ncclSuccess ? check_place(init.call, init.rank_count, init.rank) : result;
  if (result == ncclSuccess && (init.id_count < 1 || init.id_count > init.rank_count)) {
    warn("%s : improper usage of ncclCommInitRankScalable: nId = %d, nranks=%d", init.call,
         init.id_count, init.rank_count);
    result = ncclInvalidArgument;
  }
  return result == ncclSuccess ? parse_config(init.config, nullptr, config) : result;
}

ncclResult_t init_on_current_device(const Init& init, ncclComm_t* handle) {
  Config config;
  int device = 0;
  ncclResult_t result = check(init, handle, config);
  result = result == ncclSuccess ? current_device(device) : result;
  if (result != ncclSuccess) {
    return group_fail(result);
  }
  Rendezvous::remove_leftovers();
  Communicator* comm = new_communicator(device, config);
  set_place(*comm, hash_of(init.ids[0]), init.rank, init.rank_count);
  set_state(*comm, ncclInProgress);
  *handle = comm;
  Job job{comm, nullptr, {}, finish_creation(comm, handle, init.call)};
  add_join_phases(job);
  return run_job(std::move(job));
}

ncclResult_t check_devices(int count, const int* devices) {
  int available = 0;
  if (cudaGetDeviceCount(&available) != cudaSuccess) {
    return ncclUnhandledCudaError;
  }
  std::vector<bool> seen(static_cast<size_t>(available));
  for (int i = 0; i < count; ++i) {
    const int device = devices ? devices[i] : i;
    if (device < 0 || device >= available) {
      warn("ncclCommInitAll : invalid device %d of %d", device, available);
      return ncclInvalidArgument;
    }
    if (seen[static_cast<size_t>(device)]) {
      warn("ncclCommInitAll : device %d is given twice", device);
      return ncclInvalidUsage;
    }
    seen[static_cast<size_t>(device)] = true;
  }
  return ncclSuccess;
}

ncclResult_t init_all(ncclComm_t* handles, int count, const int* devices) {
  const ncclUniqueId id = new_unique_id();
  int before = 0;
  cudaGetDevice(&before);
  group_start();
  for (int i = 0; i < count; ++i) {
    const int device = devices ? devices[i] : i;
    if (cudaSetDevice(device) != cudaSuccess) {
      group_fail(ncclUnhandledCudaError);
      break;
    }
    init_on_current_device({"ncclCommInitAll", count, i, 1, &id, nullptr}, &handles[i]);
  }
  cudaSetDevice(before);
  return group_end();
}

}  // namespace
}  // namespace simgpu::nccl

using namespace simgpu::nccl;

SIMGPU_NCCL_EXPORT(ncclGetUniqueId);
ncclResult_t ncclGetUniqueId(ncclUniqueId* unique_id) {
  SIMGPU_ENTER(ncclResult_t);
  if (const ncclResult_t result = check_pointer(unique_id, "ncclGetUniqueId", "out");
      result != ncclSuccess) {
    return result;
  }
  Rendezvous::remove_leftovers();
  *unique_id = new_unique_id();
  return ncclSuccess;
}

SIMGPU_NCCL_EXPORT(ncclCommInitRank);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  SIMGPU_ENTER(ncclResult_t);
  return init_on_current_device({"ncclCommInitRank", nranks, rank, 1, &id, nullptr}, comm);
}

SIMGPU_NCCL_EXPORT(ncclCommInitRankConfig);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  SIMGPU_ENTER(ncclResult_t);
  return init_on_current_device({"ncclCommInitRankConfig", nranks, rank, 1, &id, config}, comm);
}

SIMGPU_NCCL_EXPORT(ncclCommInitRankScalable);
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int id_count,
                                      ncclUniqueId* ids, ncclConfig_t* config) {
  SIMGPU_ENTER(ncclResult_t);
  return init_on_current_device({"ncclCommInitRankScalable", nranks, myrank, id_count, ids, config},
                                newcomm);
}

SIMGPU_NCCL_EXPORT(ncclCommInitAll);
ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  SIMGPU_ENTER(ncclResult_t);
  ncclResult_t result = check_pointer(comm, "ncclCommInitAll", "comms");
  if (result == ncclSuccess && ndev < 0) {
    warn("Invalid device count requested : %d", ndev);
    result = ncclInvalidArgument;
  }
  result = result == ncclSuccess ? check_devices(ndev, devlist) : result;
  return result == ncclSuccess ? init_all(comm, ndev, devlist) : result;
}
