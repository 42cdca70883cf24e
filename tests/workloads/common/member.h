// One rank of a communicator that lives in this process: its device, its communicator, a stream.
#pragma once
#include <nccl.h>

#include <vector>

#include "check_nccl.h"

struct Member {
  int rank = 0;
  int device = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};

inline void open_stream(Member& member) {
  CUDA_CHECK(cudaSetDevice(member.device));
  CUDA_CHECK(cudaStreamCreateWithFlags(&member.stream, cudaStreamNonBlocking));
}

inline void wait_for(const std::vector<Member>& members) {
  for (const Member& member : members) {
    CUDA_CHECK(cudaSetDevice(member.device));
    CUDA_CHECK(cudaStreamSynchronize(member.stream));
  }
}

// NCCL's own view of a member must be ours.
inline void check_identity(const Member& member, int size) {
  int count = -1, rank = -1, device = -1;
  NCCL_CHECK(ncclCommCount(member.comm, &count));
  NCCL_CHECK(ncclCommUserRank(member.comm, &rank));
  NCCL_CHECK(ncclCommCuDevice(member.comm, &device));
  CHECK(count == size && rank == member.rank && device == member.device,
        "rank %d of %d on device %d calls itself %d of %d on %d", member.rank, size, member.device,
        rank, count, device);
}

inline void close(const Member& member) {
  CUDA_CHECK(cudaSetDevice(member.device));
  CUDA_CHECK(cudaStreamDestroy(member.stream));
  NCCL_CHECK(ncclCommDestroy(member.comm));
}
