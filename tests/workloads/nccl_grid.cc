// run: ranks=4 devices=4
// A grid of 2 x n/2 ranks by two splits: rows share a layer (tensor parallel), columns share data
// (data parallel).  A step sums activations along the row, then averages gradients along the
// column, on streams of their own.
#include <nccl.h>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

constexpr size_t kCount = 5000;

struct Axis {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int rank = -1;
  int size = 0;
};

Axis split(ncclComm_t world, int color, int key, const char* name) {
  Axis axis;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = name;
  NCCL_CHECK(ncclCommSplit(world, color, key, &axis.comm, &config));
  NCCL_CHECK(ncclCommUserRank(axis.comm, &axis.rank));
  NCCL_CHECK(ncclCommCount(axis.comm, &axis.size));
  CUDA_CHECK(cudaStreamCreateWithFlags(&axis.stream, cudaStreamNonBlocking));
  return axis;
}

void step(const Axis& row, const Axis& column, int number) {
  const int rank = world_rank();
  const DeviceBuffer<float> values(
      std::vector<float>(kCount, static_cast<float>(rank + 1 + number)));
  cudaEvent_t activations_ready;
  CUDA_CHECK(cudaEventCreateWithFlags(&activations_ready, cudaEventDisableTiming));
  NCCL_CHECK(ncclAllReduce(values.data(), values.data(), kCount, ncclFloat, ncclSum, row.comm,
                           row.stream));
  CUDA_CHECK(cudaEventRecord(activations_ready, row.stream));
  CUDA_CHECK(cudaStreamWaitEvent(column.stream, activations_ready, 0));
  NCCL_CHECK(ncclAllReduce(values.data(), values.data(), kCount, ncclFloat, ncclAvg, column.comm,
                           column.stream));
  CUDA_CHECK(cudaStreamSynchronize(column.stream));
  CUDA_CHECK(cudaEventDestroy(activations_ready));
  // All ranks' values, divided by the number of columns' members.
  const int size = world_size();
  const double all = size * (size + 1) / 2.0 + size * number;
  check_values("step " + std::to_string(number), values.values(),
               [&](size_t) { return all / column.size; });
}

void close(const Axis& axis) {
  CUDA_CHECK(cudaStreamDestroy(axis.stream));
  finish(axis.comm);
}

}  // namespace

int main() {
  select_device();
  const int rank = world_rank(), size = world_size();
  const int columns = size / 2, my_row = rank / columns, my_column = rank % columns;
  const ncclComm_t world = world_communicator();
  // The key turns the order of the row around.
  const Axis row = split(world, my_row, columns - my_column, "row");
  const Axis column = split(world, my_column, my_row, "column");
  CHECK(row.size == columns && row.rank == columns - 1 - my_column, "rank %d of %d in its row",
        row.rank, row.size);
  CHECK(column.size == 2 && column.rank == my_row, "rank %d of %d in its column", column.rank,
        column.size);
  for (int number = 0; number < 10; ++number) {
    step(row, column, number);
  }
  // The last rank is in no group: it takes part in the split and gets none.
  ncclComm_t others = nullptr;
  const bool left_out = rank == size - 1;
  NCCL_CHECK(ncclCommSplit(world, left_out ? NCCL_SPLIT_NOCOLOR : 0, rank, &others, nullptr));
  CHECK((others == nullptr) == left_out, "rank %d: a communicator it must %shave", rank,
        left_out ? "not " : "");
  if (others) {
    finish(others);
  }
  close(row);
  close(column);
  finish(world);
  printf("nccl_grid: row %d, column %d\n", my_row, my_column);
  return 0;
}
