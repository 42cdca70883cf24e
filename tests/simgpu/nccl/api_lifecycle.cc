// The end of communicators, and questions about them.
#include <stdlib.h>

#include <string_view>

#include "nccl/api.h"
#include "nccl/debug.h"
#include "nccl/group.h"

namespace simgpu::nccl {
namespace {

ncclResult_t answer(ncclComm_t comm, const char* call, int* out, int ncclComm::*member) {
  ncclResult_t result = check_ready(comm, call);
  result = result == ncclSuccess ? check_pointer(out, call, "out") : result;
  if (result == ncclSuccess) {
    *out = comm->*member;
  }
  return result;
}

// NCCL may wait for the other ranks of the machine.
bool finalize_meets() {
  static const bool meets = [] {
    const char* text = getenv("SIMGPU_NCCL_FINALIZE");
    return text && std::string_view(text) == "meet";
  }();
  return meets;
}

ncclResult_t meet(Communicator& comm, const Stop& stop) {
  comm.cell().finalized.store(1);
  comm.segment->ring_all();
  const auto all = [&] {
    for (int rank = 0; rank < comm.rank_count; ++rank) {
      if (comm.segment->cell(rank).finalized.load() == 0) {
        return false;
      }
    }
    return true;
  };
  return wait_on(comm.cell().bell, all, [&] { return stop.load(); }) ? ncclSuccess
                                                                     : ncclInternalError;
}

}  // namespace
}  // namespace simgpu::nccl

using namespace simgpu::nccl;

SIMGPU_NCCL_EXPORT(ncclCommFinalize);
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  SIMGPU_ENTER(ncclResult_t);
  if (!comm) {
    return ncclSuccess;
  }
  ncclResult_t result = check_ready(comm, "ncclCommFinalize");
  if (result == ncclSuccess && (comm->revoked.load() || comm->finalized.exchange(true))) {
    warn("ncclCommFinalize : the communicator was finalized or revoked before");
    result = ncclInvalidArgument;
  }
  if (result != ncclSuccess) {
    return group_fail(result);
  }
  const auto end = [comm](const Stop& stop) {
    const ncclResult_t launched = wait_launched(*comm);
    return launched == ncclSuccess && finalize_meets() ? meet(*comm, stop) : launched;
  };
  return run_job(Job{comm, nullptr, {end}, {}});
}

SIMGPU_NCCL_EXPORT(ncclCommDestroy);
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  SIMGPU_ENTER(ncclResult_t);
  if (!comm) {
    return ncclSuccess;
  }
  if (const ncclResult_t result = check_ready(comm, "ncclCommDestroy"); result != ncclSuccess) {
    return group_fail(result);
  }
  // Never in the background, even if the communicator does not block: nobody could ask for its
  // state.
  const ncclResult_t result = wait_launched(*comm);
  release(*comm);
  return result;
}

SIMGPU_NCCL_EXPORT(ncclCommAbort);
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  SIMGPU_ENTER(ncclResult_t);
  if (!comm) {
    return ncclSuccess;
  }
  if (const ncclResult_t result = check_comm(comm, "ncclCommAbort"); result != ncclSuccess) {
    return result;
  }
  if (comm->aborted.exchange(true)) {
    warn("ncclCommAbort : the communicator is being aborted already");
    return ncclInvalidArgument;
  }
  stop_everything(*comm);
  wait_idle(*comm, true);
  release(*comm);
  return ncclSuccess;
}

SIMGPU_NCCL_EXPORT(ncclCommRevoke);
ncclResult_t ncclCommRevoke(ncclComm_t comm, int revoke_flags) {
  SIMGPU_ENTER(ncclResult_t);
  if (!comm) {
    return ncclSuccess;
  }
  ncclResult_t result = check_comm(comm, "ncclCommRevoke");
  if (result == ncclSuccess && revoke_flags != NCCL_REVOKE_DEFAULT) {
    warn("ncclCommRevoke : revokeFlags %d must be NCCL_REVOKE_DEFAULT (0)", revoke_flags);
    result = ncclInvalidArgument;
  }
  if (result == ncclSuccess && comm->revoked.exchange(true)) {
    warn("ncclCommRevoke : the communicator was revoked before");
    result = ncclInvalidArgument;
  }
  if (result != ncclSuccess) {
    return group_fail(result);
  }
  stop_everything(*comm);
  const auto settle = [comm](const Stop&) {
    wait_idle(*comm, false);
    return ncclSuccess;
  };
  return run_job(Job{comm, nullptr, {settle}, {}});
}

SIMGPU_NCCL_EXPORT(ncclCommGetAsyncError);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* async_error) {
  SIMGPU_ENTER(ncclResult_t);
  ncclResult_t result = check_comm(comm, "ncclCommGetAsyncError");
  result = result == ncclSuccess ? check_pointer(async_error, "ncclCommGetAsyncError", "asyncError")
                                 : result;
  if (result == ncclSuccess) {
    *async_error = comm->state.load(std::memory_order_acquire);
  }
  return result;
}

SIMGPU_NCCL_EXPORT(ncclCommCount);
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  SIMGPU_ENTER(ncclResult_t);
  return answer(comm, "ncclCommCount", count, &ncclComm::rank_count);
}

SIMGPU_NCCL_EXPORT(ncclCommCuDevice);
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  SIMGPU_ENTER(ncclResult_t);
  return answer(comm, "ncclCommCuDevice", device, &ncclComm::device);
}

SIMGPU_NCCL_EXPORT(ncclCommUserRank);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  SIMGPU_ENTER(ncclResult_t);
  return answer(comm, "ncclCommUserRank", rank, &ncclComm::rank);
}
