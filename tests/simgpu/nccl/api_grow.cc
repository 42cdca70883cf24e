// Communicators that take in more ranks, and that give their memory back for a while (NCCL 2.29).
#include "interpose/calls/nccl_later.h"
#include "nccl/api.h"
#include "nccl/debug.h"
#include "nccl/group.h"
#include "nccl/identity.h"
#include "nccl/join.h"

namespace simgpu::nccl {
namespace {

constexpr uint64_t kNoKey = 0;

struct Growth {
  ncclComm_t parent;  // nullptr: this rank joins
  int rank_count;
  const ncclUniqueId* id;  // nullptr: another rank of the parent tells its key
  int rank;                // of one that joins; -1: as in the parent
  const ncclConfig_t* config;
};

ncclResult_t refuse(const char* what, int value) {
  warn("ncclCommGrow : invalid %s %d", what, value);
  return ncclInvalidArgument;
}

ncclResult_t check(const Growth& growth, const ncclComm_t* handle) {
  const ncclResult_t result = check_pointer(handle, "ncclCommGrow", "newcomm");
  if (result != ncclSuccess || growth.parent) {
    const ncclResult_t ready =
        result == ncclSuccess ? check_ready(growth.parent, "ncclCommGrow") : result;
    if (ready != ncclSuccess) {
      return ready;
    }
    return growth.rank != -1 ? refuse("rank of a member", growth.rank)
           : growth.rank_count <= growth.parent->rank_count
               ? refuse("number of ranks", growth.rank_count)
               : ncclSuccess;
  }
  if (growth.rank < 0 || growth.rank >= growth.rank_count) {
    return refuse("rank", growth.rank);
  }
  return check_pointer(growth.id, "ncclCommGrow", "uniqueId");
}

// The key is told to the parent's ranks that have no id.
void tell(Communicator& parent, uint32_t ordinal, uint64_t key) {
  parent.cell().grow.key.store(key);
  parent.cell().grow.ordinal.store(ordinal);
  parent.segment->ring_all();
}

uint64_t told(const Communicator& parent, uint32_t ordinal) {
  for (int rank = 0; rank < parent.rank_count; ++rank) {
    const GrowCell& cell = parent.segment->cell(rank).grow;
    if (cell.ordinal.load() == ordinal) {
      return cell.key.load();
    }
  }
  return kNoKey;
}

ncclResult_t take_place(Communicator& child, Communicator& parent, uint32_t ordinal, uint64_t key,
                        int rank_count, const Stop& stop) {
  if (key != kNoKey) {
    tell(parent, ordinal, key);
  } else {
    const auto is_told = [&] { return (key = told(parent, ordinal)) != kNoKey; };
    if (!wait_on(parent.cell().bell, is_told, [&] { return stop.load(); })) {
      return ncclInternalError;
    }
  }
  set_place(child, key, parent.rank, rank_count);
  return ncclSuccess;
}

ncclResult_t grow(const Growth& growth, ncclComm_t* handle) {
  ncclResult_t result = check(growth, handle);
  Config config;
  result =
      result == ncclSuccess
          ? parse_config(growth.config, growth.parent ? &growth.parent->config : nullptr, config)
          : result;
  int device = growth.parent ? growth.parent->device : 0;
  if (result == ncclSuccess && !growth.parent &&
      (cudaFree(nullptr) != cudaSuccess || cudaGetDevice(&device) != cudaSuccess)) {
    result = ncclUnhandledCudaError;
  }
  if (result != ncclSuccess) {
    return group_fail(result);
  }
  Communicator* const child = new_communicator(device, config);
  const uint64_t key = growth.id ? hash_of(*growth.id) : kNoKey;
  set_state(*child, ncclInProgress);
  *handle = child;
  Job job{child, growth.parent, {}, finish_creation(child, handle, "ncclCommGrow")};
  if (growth.parent) {
    Communicator* const parent = growth.parent;
    const uint32_t ordinal = ++parent->growths;
    const int rank_count = growth.rank_count;
    job.phases.emplace_back([=](const Stop& stop) {
      return take_place(*child, *parent, ordinal, key, rank_count, stop);
    });
  } else {
    set_place(*child, key, growth.rank, growth.rank_count);
  }
  add_join_phases(job);
  return run_job(std::move(job));
}

// All ranks have to come, for the memory to go and to return.
ncclResult_t change(ncclComm_t comm, const char* call, bool suspended) {
  ncclResult_t result = check_ready(comm, call);
  if (result == ncclSuccess && comm->suspended == suspended) {
    warn("%s : the communicator is %ssuspended", call, suspended ? "already " : "not ");
    result = ncclInvalidUsage;
  }
  if (result != ncclSuccess) {
    return group_fail(result);
  }
  comm->suspended = suspended;
  const uint32_t ordinal = ++comm->changes;
  const auto meet = [=](const Stop& stop) {
    comm->cell().changes.store(ordinal);
    comm->segment->ring_all();
    const auto all = [&] {
      for (int rank = 0; rank < comm->rank_count; ++rank) {
        if (comm->segment->cell(rank).changes.load() < ordinal) {
          return false;
        }
      }
      return true;
    };
    return wait_on(comm->cell().bell, all, [&] { return stop.load(); }) ? ncclSuccess
                                                                        : ncclInternalError;
  };
  return run_job(Job{comm, nullptr, {meet}, {}});
}

}  // namespace
}  // namespace simgpu::nccl

using namespace simgpu::nccl;

SIMGPU_NCCL_EXPORT(ncclCommGetUniqueId);
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* unique_id) {
  SIMGPU_ENTER(ncclResult_t);
  ncclResult_t result = check_ready(comm, "ncclCommGetUniqueId");
  result =
      result == ncclSuccess ? check_pointer(unique_id, "ncclCommGetUniqueId", "uniqueId") : result;
  if (result == ncclSuccess) {
    *unique_id = new_unique_id();
  }
  return result;
}

SIMGPU_NCCL_EXPORT(ncclCommGrow);
ncclResult_t ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId* unique_id, int rank,
                          ncclComm_t* newcomm, ncclConfig_t* config) {
  SIMGPU_ENTER(ncclResult_t);
  return grow({comm, nranks, unique_id, rank, config}, newcomm);
}

SIMGPU_NCCL_EXPORT(ncclCommSuspend);
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags) {
  SIMGPU_ENTER(ncclResult_t);
  constexpr int kMemory = 1;  // NCCL_SUSPEND_MEM
  if (flags != kMemory) {
    warn("ncclCommSuspend : flags %d must be NCCL_SUSPEND_MEM", flags);
    return group_fail(ncclInvalidArgument);
  }
  return change(comm, "ncclCommSuspend", true);
}

SIMGPU_NCCL_EXPORT(ncclCommResume);
ncclResult_t ncclCommResume(ncclComm_t comm) {
  SIMGPU_ENTER(ncclResult_t);
  return change(comm, "ncclCommResume", false);
}
