// run: devices=4
// One process and all its devices: each squares its part, peer copies bring the parts to device 0,
// which adds them up.
#include <cuda_runtime.h>
#include <simgpu.h>

#include <memory>

#include "common/buffer.h"

__global__ void square(const int* in, int* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    out[i] = in[i] * in[i];
  }
}
__global__ void add_parts(const int* parts, int part_count, int* sum, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    sum[i] = 0;
    for (int part = 0; part < part_count; ++part) {
      sum[i] += parts[part * count + i];
    }
  }
}

constexpr int kCount = 8192;
constexpr size_t kBytes = kCount * sizeof(int);

struct Device {
  explicit Device(int number) : in(kCount), out(kCount) {
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    std::vector<int> values(kCount);
    for (int i = 0; i < kCount; ++i) {
      values[static_cast<size_t>(i)] = i % 100 + number;
    }
    in.upload(values);
  }
  DeviceBuffer<int> in, out;
  cudaStream_t stream = nullptr;
  cudaEvent_t done = nullptr;
};

void register_bodies() {
  simgpu::kernel(
      "square", +[](simgpu::Grid, const int* in, int* out, int count) {
        for (int i = 0; i < count; ++i) {
          out[i] = in[i] * in[i];
        }
      });
  simgpu::kernel(
      "add_parts", +[](simgpu::Grid, const int* parts, int part_count, int* sum, int count) {
        for (int i = 0; i < count; ++i) {
          sum[i] = 0;
          for (int part = 0; part < part_count; ++part) {
            sum[i] += parts[part * count + i];
          }
        }
      });
}

void enable_peers(int devices) {
  for (int from = 0; from < devices; ++from) {
    CUDA_CHECK(cudaSetDevice(from));
    for (int to = 0; to < devices; ++to) {
      int can = 0;
      CUDA_CHECK(cudaDeviceCanAccessPeer(&can, from, to));
      CHECK(from != to || !can, "device %d is its own peer", from);
      if (can) {
        CUDA_CHECK(cudaDeviceEnablePeerAccess(to, 0));
        CUDA_EXPECT(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(to, 0));
        cudaGetLastError();
      }
    }
  }
}

std::vector<int> reduce_on_first(std::vector<std::unique_ptr<Device>>& devices) {
  const int count = static_cast<int>(devices.size());
  CUDA_CHECK(cudaSetDevice(0));
  const DeviceBuffer<int> parts(size_t{kCount} * devices.size()), sum(kCount);
  for (int i = 0; i < count; ++i) {
    Device& device = *devices[static_cast<size_t>(i)];
    CUDA_CHECK(cudaSetDevice(i));
    square<<<kCount / 256, 256, 0, device.stream>>>(device.in.data(), device.out.data(), kCount);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpyPeerAsync(parts.data() + i * kCount, 0, device.out.data(), i, kBytes,
                                   device.stream));
    CUDA_CHECK(cudaEventRecord(device.done, device.stream));
  }
  CUDA_CHECK(cudaSetDevice(0));
  const cudaStream_t stream = devices[0]->stream;
  for (const auto& device : devices) {
    CUDA_CHECK(cudaStreamWaitEvent(stream, device->done, 0));
  }
  add_parts<<<kCount / 256, 256, 0, stream>>>(parts.data(), count, sum.data(), kCount);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaStreamSynchronize(stream));
  return sum.values();
}

int main() {
  register_bodies();
  int count = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  enable_peers(count);
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < count; ++i) {
    CUDA_CHECK(cudaSetDevice(i));
    devices.push_back(std::make_unique<Device>(i));
  }
  const std::vector<int> sum = reduce_on_first(devices);
  check_values("sum", sum, [&](size_t i) {
    int expected = 0;
    for (int device = 0; device < count; ++device) {
      const int value = static_cast<int>(i % 100) + device;
      expected += value * value;
    }
    return expected;
  });
  // A stream belongs to its device: a launch from another one's is an error.
  if (count > 1) {
    CUDA_CHECK(cudaSetDevice(1));
    square<<<1, 1, 0, devices[0]->stream>>>(devices[1]->in.data(), devices[1]->out.data(), 1);
    CUDA_EXPECT(cudaErrorInvalidResourceHandle, cudaGetLastError());
  }
  for (int i = 0; i < count; ++i) {
    CUDA_CHECK(cudaSetDevice(i));
    CUDA_CHECK(cudaStreamDestroy(devices[static_cast<size_t>(i)]->stream));
    CUDA_CHECK(cudaEventDestroy(devices[static_cast<size_t>(i)]->done));
  }
  devices.clear();
  printf("multi_device: %d devices, sum of value 99 is %d\n", count, sum[99]);
  return 0;
}
