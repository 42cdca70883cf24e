// run: ranks=2 devices=1 name=one_device
// run: ranks=4 devices=4 name=four_devices
// Processes that work on each other's memory: each exports a buffer and an event, its right
// neighbour writes into the buffer and records the event, the owner waits for the event on its own
// stream.
#include <cuda_runtime.h>
#include <simgpu.h>

#include "common/buffer.h"
#include "common/ranks.h"

__global__ void write_rank(int* values, int count, int rank) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    values[i] = 1000 * rank + i;
  }
}

constexpr int kCount = 1 << 14;
constexpr int kRounds = 3;

struct Exported {
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t event;
};

// Writes into the right neighbour's memory, reads what the left one wrote into ours.
void exchange(int round, int* theirs, cudaEvent_t written_theirs, const DeviceBuffer<int>& mine,
              cudaEvent_t written, cudaStream_t stream) {
  const int rank = world_rank(), writer = (rank + world_size() - 1) % world_size();
  const std::string name = "round" + std::to_string(round);
  write_rank<<<kCount / 256, 256, 0, stream>>>(theirs, kCount, 10 * round + rank);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaEventRecord(written_theirs, stream));
  meet(name + ".recorded");
  CUDA_CHECK(cudaStreamWaitEvent(stream, written, 0));
  std::vector<int> values(kCount);
  CUDA_CHECK(
      cudaMemcpyAsync(values.data(), mine.data(), mine.bytes(), cudaMemcpyDeviceToHost, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  check_values(name, values,
               [&](size_t i) { return 1000 * (10 * round + writer) + static_cast<int>(i); });
  meet(name + ".read");
}

int main() {
  simgpu::kernel(
      "write_rank", +[](simgpu::Grid, int* values, int count, int rank) {
        for (int i = 0; i < count; ++i) {
          values[i] = 1000 * rank + i;
        }
      });
  select_device();
  const int rank = world_rank();
  const int owner = (rank + 1) % world_size();  // into whose memory we write

  const DeviceBuffer<int> mine(std::vector<int>(kCount, -1));
  cudaStream_t stream;
  cudaEvent_t written;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA_CHECK(cudaEventCreateWithFlags(&written, cudaEventDisableTiming | cudaEventInterprocess));
  Exported exported{};
  CUDA_CHECK(cudaIpcGetMemHandle(&exported.memory, mine.data()));
  CUDA_CHECK(cudaIpcGetEventHandle(&exported.event, written));
  publish("exported." + std::to_string(rank), &exported, sizeof exported);

  Exported other{};
  fetch("exported." + std::to_string(owner), &other, sizeof other);
  void* theirs = nullptr;
  cudaEvent_t written_theirs;
  CUDA_CHECK(cudaIpcOpenMemHandle(&theirs, other.memory, cudaIpcMemLazyEnablePeerAccess));
  CUDA_CHECK(cudaIpcOpenEventHandle(&written_theirs, other.event));

  for (int round = 0; round < kRounds; ++round) {
    exchange(round, static_cast<int*>(theirs), written_theirs, mine, written, stream);
  }
  CUDA_CHECK(cudaIpcCloseMemHandle(theirs));
  CUDA_CHECK(cudaEventDestroy(written_theirs));
  meet("closed");  // memory that others have open must not be freed
  CUDA_CHECK(cudaEventDestroy(written));
  CUDA_CHECK(cudaStreamDestroy(stream));
  printf("ipc_exchange: rank %d, %d rounds\n", rank, kRounds);
  return 0;
}
