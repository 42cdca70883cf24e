// Reductions: what the caller's ncclRedOp_t means, and the ones that callers make.
#include <cstring>

#include "nccl/api.h"
#include "nccl/debug.h"
#include "nccl/enqueue.h"
#include "nccl/reduce.h"

namespace simgpu::nccl {
namespace {

// A user's reduction is ncclNumOps + communicator * kPerCommunicator + index: one that belongs to
// another communicator is found out.
constexpr int kPerCommunicator = 1024;
constexpr int kCommunicators = (ncclMaxRedOp - ncclNumOps) / kPerCommunicator;

int first_op(const Communicator& comm) {
  return ncclNumOps + comm.serial % kCommunicators * kPerCommunicator;
}

// nullptr if there is no such reduction.  The caller holds comm.mutex.
UserReduction* find(Communicator& comm, ncclRedOp_t op) {
  const int index = static_cast<int>(op) - first_op(comm);
  if (index < 0 || static_cast<size_t>(index) >= comm.reductions.size()) {
    return nullptr;
  }
  UserReduction& found = comm.reductions[static_cast<size_t>(index)];
  return found.live ? &found : nullptr;
}

ncclResult_t resolve_user(Communicator& comm, ncclRedOp_t op, ncclDataType_t type, Reduction& out) {
  const std::lock_guard lock(comm.mutex);
  const UserReduction* found = find(comm, op);
  if (!found) {
    warn("reduction operation %d unknown to this communicator", op);
    return ncclInvalidArgument;
  }
  if (found->type != type) {
    warn("the data type of a user-created ncclRedOp_t does not match that of the call");
    return ncclInvalidArgument;
  }
  out = found->reduction;
  return ncclSuccess;
}

ncclResult_t create(Communicator& comm, const UserReduction& made, ncclRedOp_t* op) {
  const std::lock_guard lock(comm.mutex);
  size_t index = 0;
  while (index < comm.reductions.size() && comm.reductions[index].live) {
    ++index;
  }
  if (index == kPerCommunicator) {
    warn("more than %d reductions on one communicator", kPerCommunicator);
    return ncclInvalidUsage;
  }
  if (index == comm.reductions.size()) {
    comm.reductions.emplace_back();
  }
  comm.reductions[index] = made;
  *op = static_cast<ncclRedOp_t>(first_op(comm) + static_cast<int>(index));
  return ncclSuccess;
}

}  // namespace

ncclResult_t resolve(Communicator& comm, ncclRedOp_t op, ncclDataType_t type, Reduction& out) {
  switch (static_cast<int>(op)) {
    case ncclSum:
      out.kind = Reduction::Kind::kSum;
      return ncclSuccess;
    case ncclProd:
      out.kind = Reduction::Kind::kProd;
      return ncclSuccess;
    case ncclMax:
      out.kind = Reduction::Kind::kMax;
      return ncclSuccess;
    case ncclMin:
      out.kind = Reduction::Kind::kMin;
      return ncclSuccess;
    case ncclAvg:
      out.kind = is_float(type) ? Reduction::Kind::kPreMulSum : Reduction::Kind::kSumPostDiv;
      out.divisor = static_cast<uint64_t>(comm.rank_count);
      store_scalar(type, 1.0 / comm.rank_count, out.scalar);
      return ncclSuccess;
    default:
      if (static_cast<int>(op) < 0) {
        warn("invalid reduction operation %d", op);
        return ncclInvalidArgument;
      }
      return resolve_user(comm, op, type, out);
  }
}

}  // namespace simgpu::nccl

using namespace simgpu::nccl;

SIMGPU_NCCL_EXPORT(ncclRedOpCreatePreMulSum);
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  SIMGPU_ENTER(ncclResult_t);
  constexpr const char* kCall = "ncclRedOpCreatePreMulSum";
  ncclResult_t result = check_ready(comm, kCall);
  result = result == ncclSuccess ? check_pointer(op, kCall, "op") : result;
  result = result == ncclSuccess ? check_pointer(scalar, kCall, "scalar") : result;
  if (result != ncclSuccess) {
    return result;
  }
  const bool device = residence == ncclScalarDevice;
  if (datatype < 0 || datatype >= ncclNumTypes ||
      (!device && residence != ncclScalarHostImmediate)) {
    warn("%s : invalid type %d or residence %d", kCall, datatype, residence);
    return ncclInvalidArgument;
  }
  UserReduction made{.live = true, .type = datatype, .reduction = {}};
  made.reduction.kind = Reduction::Kind::kPreMulSum;
  if (device) {
    made.reduction.device_scalar = scalar;
  } else {
    memcpy(made.reduction.scalar, scalar, type_bytes(datatype));
  }
  return create(*comm, made, op);
}

SIMGPU_NCCL_EXPORT(ncclRedOpDestroy);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  SIMGPU_ENTER(ncclResult_t);
  if (static_cast<int>(op) >= 0 && static_cast<int>(op) < ncclNumOps) {
    warn("ncclRedOpDestroy : operator is a NCCL builtin");
    return ncclInvalidArgument;
  }
  if (const ncclResult_t result = check_comm(comm, "ncclRedOpDestroy"); result != ncclSuccess) {
    return result;
  }
  const std::lock_guard lock(comm->mutex);
  UserReduction* found = find(*comm, op);
  if (!found) {
    warn("ncclRedOpDestroy : operator unknown to this communicator");
    return ncclInvalidArgument;
  }
  found->live = false;
  return ncclSuccess;
}
