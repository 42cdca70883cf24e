// A program that the CUDA runtime is linked into, as nvcc does by default: its calls to the runtime
// pass nobody, those that the runtime makes to the driver do.   static_runtime ROUNDS
#include <cuda_runtime_api.h>

#include <cstdlib>

namespace {

constexpr size_t kLeaked = 3 << 20;

[[gnu::noinline]] bool train(int rounds) {
  char numbers[256] = {};
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  if (cudaMalloc(&memory, 1 << 20) != cudaSuccess || cudaStreamCreate(&stream) != cudaSuccess) {
    return false;
  }
  bool good = true;
  for (int i = 0; i < rounds; ++i) {
    good = cudaMemcpyAsync(memory, numbers, sizeof numbers, cudaMemcpyHostToDevice, stream) ==
               cudaSuccess &&
           cudaStreamSynchronize(stream) == cudaSuccess && good;
  }
  return cudaStreamDestroy(stream) == cudaSuccess && cudaFree(memory) == cudaSuccess && good;
}

[[gnu::noinline]] void* leak() {
  void* memory = nullptr;
  return cudaMalloc(&memory, kLeaked) == cudaSuccess ? memory : nullptr;  // LEAKED HERE
}

}  // namespace

int main(int argc, char** argv) {
  const bool good = train(argc > 1 ? atoi(argv[1]) : 10);
  return good && leak() != nullptr ? 0 : 1;
}
