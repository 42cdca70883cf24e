// run: ranks=4 devices=4
// Reductions of one's own: each rank's values are multiplied by its scalar before they are summed;
// the scalar is the host's at creation, or the device's when the collective runs.
#include <nccl.h>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

constexpr size_t kCount = 4000;

struct World {
  ncclComm_t comm;
  cudaStream_t stream;
  int rank;
  int size;
};

// Powers of two: products and sums are exact.
float weight(int rank) {
  return 1.0F / static_cast<float>(1 << rank);
}
float value_at(int rank, size_t i) {
  return static_cast<float>(rank + 1) * static_cast<float>(i % 100);
}
float weighted_sum(const World& world, size_t i) {
  float sum = 0;
  for (int rank = 0; rank < world.size; ++rank) {
    sum += weight(rank) * value_at(rank, i);
  }
  return sum;
}

std::vector<float> input(const World& world) {
  std::vector<float> values(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    values[i] = value_at(world.rank, i);
  }
  return values;
}

void host_scalar(const World& world) {
  float scalar = weight(world.rank);
  ncclRedOp_t op;
  NCCL_CHECK(
      ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, world.comm));
  CHECK(op >= ncclNumOps, "the new operator is %d", op);
  scalar = 0;  // it was taken already
  const DeviceBuffer<float> values(input(world));
  NCCL_CHECK(
      ncclAllReduce(values.data(), values.data(), kCount, ncclFloat, op, world.comm, world.stream));
  NCCL_CHECK(ncclRedOpDestroy(op, world.comm));
  CUDA_CHECK(cudaStreamSynchronize(world.stream));
  check_values("scalar of the host", values.values(),
               [&](size_t i) { return weighted_sum(world, i); });
}

void device_scalar(const World& world) {
  const DeviceBuffer<float> scalar(std::vector<float>{0});
  ncclRedOp_t op;
  NCCL_CHECK(ncclRedOpCreatePreMulSum(&op, scalar.data(), ncclFloat, ncclScalarDevice, world.comm));
  const DeviceBuffer<float> values(input(world));
  const DeviceBuffer<float> part(kCount / static_cast<size_t>(world.size));
  const float now = weight(world.rank);  // written in stream order, after the operator was made
  CUDA_CHECK(
      cudaMemcpyAsync(scalar.data(), &now, sizeof now, cudaMemcpyHostToDevice, world.stream));
  NCCL_CHECK(ncclReduceScatter(values.data(), part.data(), part.count(), ncclFloat, op, world.comm,
                               world.stream));
  CUDA_CHECK(cudaStreamSynchronize(world.stream));
  NCCL_CHECK(ncclRedOpDestroy(op, world.comm));
  const size_t first = part.count() * static_cast<size_t>(world.rank);
  check_values("scalar of the device", part.values(),
               [&](size_t i) { return weighted_sum(world, first + i); });
}

}  // namespace

int main() {
  select_device();
  World world{world_communicator(), nullptr, world_rank(), world_size()};
  CUDA_CHECK(cudaStreamCreateWithFlags(&world.stream, cudaStreamNonBlocking));
  host_scalar(world);
  device_scalar(world);
  CUDA_CHECK(cudaStreamDestroy(world.stream));
  finish(world.comm);
  printf("nccl_scaled_sum: rank %d of %d\n", world.rank, world.size);
  return 0;
}
