#include "nccl/api.h"
#include "nccl/enqueue.h"

using namespace simgpu::nccl;
using Kind = Call::Kind;

SIMGPU_NCCL_EXPORT(ncclReduce);
ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  SIMGPU_ENTER(ncclResult_t);
  return enqueue(
      {"ncclReduce", Kind::kReduce, sendbuff, recvbuff, count, datatype, op, root, comm, stream});
}

SIMGPU_NCCL_EXPORT(ncclBcast);
ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  SIMGPU_ENTER(ncclResult_t);
  return enqueue(
      {"ncclBcast", Kind::kBroadcast, buff, buff, count, datatype, ncclSum, root, comm, stream});
}

SIMGPU_NCCL_EXPORT(ncclBroadcast);
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  SIMGPU_ENTER(ncclResult_t);
  return enqueue({"ncclBroadcast", Kind::kBroadcast, sendbuff, recvbuff, count, datatype, ncclSum,
                  root, comm, stream});
}

SIMGPU_NCCL_EXPORT(ncclAllReduce);
ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  SIMGPU_ENTER(ncclResult_t);
  return enqueue({"ncclAllReduce", Kind::kAllReduce, sendbuff, recvbuff, count, datatype, op, 0,
                  comm, stream});
}

SIMGPU_NCCL_EXPORT(ncclReduceScatter);
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  SIMGPU_ENTER(ncclResult_t);
  return enqueue({"ncclReduceScatter", Kind::kReduceScatter, sendbuff, recvbuff, recvcount,
                  datatype, op, 0, comm, stream});
}

SIMGPU_NCCL_EXPORT(ncclAllGather);
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  SIMGPU_ENTER(ncclResult_t);
  return enqueue({"ncclAllGather", Kind::kAllGather, sendbuff, recvbuff, sendcount, datatype,
                  ncclSum, 0, comm, stream});
}

SIMGPU_NCCL_EXPORT(ncclAlltoAll);
ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  SIMGPU_ENTER(ncclResult_t);
  return enqueue({"ncclAlltoAll", Kind::kAlltoAll, sendbuff, recvbuff, count, datatype, ncclSum, 0,
                  comm, stream});
}

SIMGPU_NCCL_EXPORT(ncclGather);
ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  SIMGPU_ENTER(ncclResult_t);
  return enqueue({"ncclGather", Kind::kGather, sendbuff, recvbuff, count, datatype, ncclSum, root,
                  comm, stream});
}

SIMGPU_NCCL_EXPORT(ncclScatter);
ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  SIMGPU_ENTER(ncclResult_t);
  return enqueue({"ncclScatter", Kind::kScatter, sendbuff, recvbuff, count, datatype, ncclSum, root,
                  comm, stream});
}

SIMGPU_NCCL_EXPORT(ncclSend);
ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  SIMGPU_ENTER(ncclResult_t);
  return enqueue(
      {"ncclSend", Kind::kSend, sendbuff, nullptr, count, datatype, ncclSum, peer, comm, stream});
}

SIMGPU_NCCL_EXPORT(ncclRecv);
ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  SIMGPU_ENTER(ncclResult_t);
  return enqueue(
      {"ncclRecv", Kind::kRecv, nullptr, recvbuff, count, datatype, ncclSum, peer, comm, stream});
}
