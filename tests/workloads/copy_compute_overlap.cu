// run: devices=1 SIMGPU_KERNEL_US=2000 SIMGPU_COPY_GBPS=0.1
// A buffer is processed in pieces: while a kernel works on one, the next comes and the last goes,
// each in a stream of its own.  Events tell afterwards that it was so; in a single stream nothing
// may overlap.
#include <cuda_runtime.h>
#include <simgpu.h>

#include <vector>

#include "common/buffer.h"

constexpr int kPieces = 8;
constexpr int kPieceCount = 16 << 10;

__global__ void slow_scale(float* values, int count, float factor, unsigned microseconds) {
#ifdef __CUDA_ARCH__
  const long long end = clock64() + 1500LL * microseconds;
  while (clock64() < end) {
  }
#endif
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    values[i] *= factor;
  }
}

// Of one piece: when its copy to the device began, and when its kernel ended.
struct Piece {
  cudaEvent_t copy_began;
  cudaEvent_t kernel_ended;
};

float after_ms(cudaEvent_t from, cudaEvent_t to) {
  float ms = 0;
  CUDA_CHECK(cudaEventElapsedTime(&ms, from, to));
  return ms;
}

// Sends all pieces through the streams in turn.
void submit(float* host, float* device, const std::vector<cudaStream_t>& streams, Piece* pieces) {
  constexpr size_t kBytes = kPieceCount * sizeof(float);
  for (int i = 0; i < kPieces; ++i) {
    const cudaStream_t stream = streams[static_cast<size_t>(i) % streams.size()];
    float* const on_host = host + i * kPieceCount;
    float* const on_device = device + i * kPieceCount;
    CUDA_CHECK(cudaEventRecord(pieces[i].copy_began, stream));
    CUDA_CHECK(cudaMemcpyAsync(on_device, on_host, kBytes, cudaMemcpyHostToDevice, stream));
    slow_scale<<<kPieceCount / 256, 256, 0, stream>>>(on_device, kPieceCount, 2.0F, 2000U);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaEventRecord(pieces[i].kernel_ended, stream));
    CUDA_CHECK(cudaMemcpyAsync(on_host, on_device, kBytes, cudaMemcpyDeviceToHost, stream));
  }
}

// How many pieces began to be copied before the kernel of the piece before had ended.
int overlaps(int stream_count, float* host, float* device) {
  std::vector<cudaStream_t> streams(static_cast<size_t>(stream_count));
  for (cudaStream_t& stream : streams) {
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  Piece pieces[kPieces];
  for (Piece& piece : pieces) {
    CUDA_CHECK(cudaEventCreate(&piece.copy_began));
    CUDA_CHECK(cudaEventCreate(&piece.kernel_ended));
  }
  submit(host, device, streams, pieces);
  CUDA_CHECK(cudaDeviceSynchronize());
  int count = 0;
  for (int i = 1; i < kPieces; ++i) {
    count += after_ms(pieces[i].copy_began, pieces[i - 1].kernel_ended) > 0;
  }
  printf("%d stream(s): %d of %d copies overlap a kernel, %.1f ms\n", stream_count, count,
         kPieces - 1,
         static_cast<double>(after_ms(pieces[0].copy_began, pieces[kPieces - 1].kernel_ended)));
  for (Piece& piece : pieces) {
    CUDA_CHECK(cudaEventDestroy(piece.copy_began));
    CUDA_CHECK(cudaEventDestroy(piece.kernel_ended));
  }
  for (cudaStream_t stream : streams) {
    CUDA_CHECK(cudaStreamDestroy(stream));
  }
  return count;
}

int main() {
  simgpu::kernel(
      "slow_scale", +[](simgpu::Grid, float* values, int count, float factor, unsigned) {
        for (int i = 0; i < count; ++i) {
          values[i] *= factor;
        }
      });
  constexpr size_t kCount = size_t{kPieces} * kPieceCount;
  float* host = nullptr;
  CUDA_CHECK(cudaMallocHost(&host, kCount * sizeof(float)));
  for (size_t i = 0; i < kCount; ++i) {
    host[i] = static_cast<float>(i);
  }
  {
    const DeviceBuffer<float> device(kCount);
    CHECK(overlaps(1, host, device.data()) == 0, "operations of one stream overlap");
    CHECK(overlaps(4, host, device.data()) > 0, "nothing overlaps in four streams");
  }
  check_values("result", host, kCount, [](size_t i) { return 4 * static_cast<float>(i); });
  CUDA_CHECK(cudaFreeHost(host));
  return 0;
}
