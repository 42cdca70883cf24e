// From a call to operations of the open group.
#pragma once
#include "nccl/group.h"

namespace simgpu::nccl {

// One call as it came in.  The functions that are made of sends and receives have kinds of their
// own.
struct Call {
  enum class Kind : uint8_t {
    kBroadcast,
    kReduce,
    kAllGather,
    kReduceScatter,
    kAllReduce,
    kSend,
    kRecv,
    kAlltoAll,
    kGather,
    kScatter
  };

  const char* name;
  Kind kind;
  const void* send;
  void* receive;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;  // or the peer
  ncclComm_t comm;
  cudaStream_t stream;
};

// Checks the arguments as NCCL does and adds the operations to the group, or runs them as one.
ncclResult_t enqueue(const Call& call);

// Fills `out` with what `op` means on this communicator; ncclInvalidArgument if it means nothing.
ncclResult_t resolve(Communicator& comm, ncclRedOp_t op, ncclDataType_t type, Reduction& out);

}  // namespace simgpu::nccl
