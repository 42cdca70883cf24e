// run: devices=1
// An image in pitched memory and a volume in 3-D memory: they go to the device, a kernel turns
// them, parts come back.
#include <cuda_runtime.h>
#include <simgpu.h>

#include <algorithm>

#include "common/buffer.h"

constexpr int kWidth = 100;
constexpr int kHeight = 37;
constexpr int kDepth = 5;
constexpr size_t kRow = kWidth * sizeof(int);

// Each row backwards; rows lie `pitch` bytes apart.
__global__ void mirror(int* image, size_t pitch, int width, int height) {
  const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (x < width / 2 && y < height) {
    int* const row = reinterpret_cast<int*>(reinterpret_cast<char*>(image) + y * pitch);
    const int left = row[x];
    row[x] = row[width - 1 - x];
    row[width - 1 - x] = left;
  }
}

void mirror_on_host(simgpu::Grid, int* image, size_t pitch, int width, int height) {
  for (int y = 0; y < height; ++y) {
    int* const row =
        reinterpret_cast<int*>(reinterpret_cast<char*>(image) + static_cast<size_t>(y) * pitch);
    std::reverse(row, row + width);
  }
}

void launch_mirror(int* image, size_t pitch, int rows) {
  const dim3 threads(16, 16);
  mirror<<<dim3((kWidth / 2 + 15) / 16, static_cast<unsigned>(rows + 15) / 16), threads>>>(
      image, pitch, kWidth, rows);
  CUDA_CHECK(cudaGetLastError());
}

std::vector<int> numbered(size_t count) {
  std::vector<int> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<int>(i);
  }
  return values;
}

void image() {
  const std::vector<int> host = numbered(size_t{kWidth} * kHeight);
  int* device = nullptr;
  size_t pitch = 0;
  CUDA_CHECK(cudaMallocPitch(&device, &pitch, kRow, kHeight));
  CHECK(pitch >= kRow && pitch % 32 == 0, "the pitch is %zu", pitch);
  CUDA_CHECK(cudaMemset2D(device, pitch, 0xff, kRow, kHeight));
  CUDA_CHECK(cudaMemcpy2D(device, pitch, host.data(), kRow, kRow, kHeight, cudaMemcpyHostToDevice));
  launch_mirror(device, pitch, kHeight);
  // A window of 10 x 8 from column 5, row 3.
  std::vector<int> window(80);
  const char* const from = reinterpret_cast<char*>(device) + 3 * pitch + 5 * sizeof(int);
  CUDA_CHECK(cudaMemcpy2DAsync(window.data(), 10 * sizeof(int), from, pitch, 10 * sizeof(int), 8,
                               cudaMemcpyDeviceToHost, nullptr));
  CUDA_CHECK(cudaDeviceSynchronize());
  check_values("window", window, [](size_t i) {
    const size_t x = 5 + i % 10, y = 3 + i / 10;
    return static_cast<int>(y * kWidth + kWidth - 1 - x);
  });
  CUDA_EXPECT(cudaErrorInvalidPitchValue, cudaMemcpy2D(device, kRow - 4, host.data(), kRow, kRow,
                                                       kHeight, cudaMemcpyHostToDevice));
  cudaGetLastError();
  CUDA_CHECK(cudaFree(device));
}

void volume() {
  std::vector<int> host = numbered(size_t{kWidth} * kHeight * kDepth);
  const cudaExtent extent = make_cudaExtent(kRow, kHeight, kDepth);
  cudaPitchedPtr device{};
  CUDA_CHECK(cudaMalloc3D(&device, extent));
  CUDA_CHECK(cudaMemset3D(device, 0, extent));
  cudaMemcpy3DParms to_device{};
  to_device.srcPtr = make_cudaPitchedPtr(host.data(), kRow, kWidth, kHeight);
  to_device.dstPtr = device;
  to_device.extent = extent;
  to_device.kind = cudaMemcpyHostToDevice;
  CUDA_CHECK(cudaMemcpy3D(&to_device));
  launch_mirror(static_cast<int*>(device.ptr), device.pitch, kHeight * kDepth);
  // Two slices of 20 columns and all rows, from column 10, slice 2.
  std::vector<int> part(size_t{20} * kHeight * 2);
  cudaMemcpy3DParms back{};
  back.srcPtr = device;
  back.srcPos = make_cudaPos(10 * sizeof(int), 0, 2);
  back.dstPtr = make_cudaPitchedPtr(part.data(), 20 * sizeof(int), 20, kHeight);
  back.extent = make_cudaExtent(20 * sizeof(int), kHeight, 2);
  back.kind = cudaMemcpyDeviceToHost;
  CUDA_CHECK(cudaMemcpy3DAsync(&back, nullptr));
  CUDA_CHECK(cudaDeviceSynchronize());
  check_values("slices", part, [](size_t i) {
    const size_t x = 10 + i % 20, y = i / 20 % kHeight, z = 2 + i / 20 / kHeight;
    return static_cast<int>((z * kHeight + y) * kWidth + kWidth - 1 - x);
  });
  CUDA_CHECK(cudaFree(device.ptr));
}

int main() {
  simgpu::kernel("mirror", &mirror_on_host);
  image();
  volume();
  printf("pitched_copies: %d x %d x %d\n", kWidth, kHeight, kDepth);
  return 0;
}
