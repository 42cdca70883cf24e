// run: devices=2
// Variables of the device by name: initial values, copies to and from, their address, one of each
// per device.
#include <cuda_runtime.h>
#include <simgpu.h>

#include "common/buffer.h"

__constant__ float c_coefficients[4];
__device__ int g_table[8] = {1, 2, 3, 5, 8, 13, 21, 34};
__device__ int g_counter;

// Takes what it needs as arguments too, so that a body on the host can see it.
__global__ void evaluate(const float* x, float* y, int count, const float* coefficients,
                         int* counter) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    y[i] = ((coefficients[3] * x[i] + coefficients[2]) * x[i] + coefficients[1]) * x[i] +
           coefficients[0];
    atomicAdd(counter, 1);
  }
}

void evaluate_on_host(simgpu::Grid, const float* x, float* y, int count, const float* coefficients,
                      int* counter) {
  for (int i = 0; i < count; ++i) {
    y[i] = ((coefficients[3] * x[i] + coefficients[2]) * x[i] + coefficients[1]) * x[i] +
           coefficients[0];
  }
  *counter += count;
}

void check_table() {
  int table[8] = {};
  CUDA_CHECK(cudaMemcpyFromSymbol(table, g_table, sizeof table));
  const int expected[] = {1, 2, 3, 5, 8, 13, 21, 34};
  check_values("the table's initial values", table, 8, [&](size_t i) { return expected[i]; });
  const int replaced[] = {-3, -5};
  CUDA_CHECK(cudaMemcpyToSymbol(g_table, replaced, sizeof replaced, 2 * sizeof(int)));
  CUDA_CHECK(cudaMemcpyFromSymbol(table, g_table, sizeof table));
  check_values("the table", table, 8,
               [&](size_t i) { return i == 2 || i == 3 ? -expected[i] : expected[i]; });
  CUDA_EXPECT(cudaErrorInvalidValue,
              cudaMemcpyToSymbol(g_table, replaced, sizeof replaced, sizeof table));
  cudaGetLastError();
}

void check_polynomial(float offset) {
  const float coefficients[] = {offset, 0.5F, 2, 1};
  CUDA_CHECK(cudaMemcpyToSymbol(c_coefficients, coefficients, sizeof coefficients));
  void *coefficients_there = nullptr, *counter = nullptr;
  size_t bytes = 0;
  CUDA_CHECK(cudaGetSymbolAddress(&coefficients_there, c_coefficients));
  CUDA_CHECK(cudaGetSymbolAddress(&counter, g_counter));
  CUDA_CHECK(cudaGetSymbolSize(&bytes, c_coefficients));
  CHECK(bytes == sizeof coefficients, "the symbol has %zu bytes", bytes);
  std::vector<float> x(64);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i);
  }
  const DeviceBuffer<float> in(x), out(x.size());
  evaluate<<<1, 64>>>(in.data(), out.data(), 64, static_cast<float*>(coefficients_there),
                      static_cast<int*>(counter));
  CUDA_CHECK(cudaGetLastError());
  check_values("polynomial", out.values(), [&](size_t i) {
    const float v = static_cast<float>(i);
    return ((v + 2) * v + 0.5F) * v + offset;
  });
  int count = 0;
  CUDA_CHECK(cudaMemcpyFromSymbol(&count, g_counter, sizeof count));
  CHECK(count == 64, "the counter of this device is %d", count);
}

int main() {
  simgpu::kernel("evaluate", &evaluate_on_host);
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  for (int device = 0; device < devices; ++device) {
    CUDA_CHECK(cudaSetDevice(device));
    check_table();
    check_polynomial(static_cast<float>(device));
  }
  printf("device_symbols: %d devices\n", devices);
  return 0;
}
