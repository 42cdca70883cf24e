// What one call costs, in ns of CPU time: run by scripts/bench with and without peers' and our own
// preloads.
//   call_cost MODE [THREADS=1] [CALLS=2000000]       prints "ns_per_call" (best of 5 rounds, of the
//   slowest thread)
// MODE: launch    cudaLaunchKernel of a runtime that does nothing (recorded without a stack)
//       stack     cudaStreamSynchronize below 20 known frames (recorded with its stack)
//       block     a block of PyTorch's allocator taken and given back below the same 20 frames:
//                 what it reports of that, which are two records
//       range     an NVTX range pushed and popped, which are two records
//       malloc    malloc and free below the same 20 frames (what heaptrack records)
//       nothing   the loop alone
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>
#include <time.h>

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace c10 {
struct Device {
  int8_t type;
  int8_t index;
};
// NOLINTNEXTLINE(readability-identifier-naming): c10's name
void reportMemoryUsageToProfiler(void* address, int64_t change, size_t allocated, size_t reserved,
                                 Device device);
}  // namespace c10

namespace {

constexpr int kFrames = 20;
constexpr int kRounds = 5;
using Loop = void (*)(long calls);

void launches(long calls) {
  void* arguments[1] = {};
  for (long i = 0; i < calls; ++i) {
    cudaLaunchKernel(reinterpret_cast<const void*>(&launches), dim3(128), dim3(256), arguments, 0,
                     reinterpret_cast<cudaStream_t>(0x10));
  }
}

void synchronisations(long calls) {
  for (long i = 0; i < calls; ++i) {
    cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(0x10));
  }
}

void allocations(long calls) {
  for (long i = 0; i < calls; ++i) {
    void* memory = malloc(64);
    asm volatile("" : : "r"(memory) : "memory");
    free(memory);
  }
}

void blocks(long calls) {
  constexpr int64_t kBytes = 512;
  void* const address = reinterpret_cast<void*>(0x7f0000000000);
  const c10::Device device = {1, 0};
  for (long i = 0; i < calls; ++i) {
    c10::reportMemoryUsageToProfiler(address, kBytes, kBytes, 1 << 21, device);
    c10::reportMemoryUsageToProfiler(address, -kBytes, 0, 1 << 21, device);
  }
}

void ranges(long calls) {
  for (long i = 0; i < calls; ++i) {
    nvtxRangePushA("layers.17");
    nvtxRangePop();
  }
}

void nothing(long calls) {
  for (long i = 0; i < calls; ++i) {
    asm volatile("" : : : "memory");
  }
}

[[gnu::noinline]] void below(int frames, Loop loop, long calls) {
  if (frames == 0) {
    loop(calls);
  } else {
    below(frames - 1, loop, calls);
  }
  asm volatile("");  // no tail call
}

// Of this thread: what else runs on the machine does not count.
double cpu_ns() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

double measure(int frames, Loop loop, long calls, int threads) {
  double best = 1e99;
  for (int round = 0; round < kRounds; ++round) {
    std::barrier start(threads);
    std::vector<double> ns(static_cast<size_t>(threads));
    std::vector<std::thread> workers;
    workers.reserve(ns.size());
    for (double& own : ns) {
      workers.emplace_back([&] {
        below(frames, loop, 1000);  // every stack and every page is known from here on
        start.arrive_and_wait();
        const double begin = cpu_ns();
        below(frames, loop, calls);
        own = cpu_ns() - begin;
      });
    }
    for (std::thread& worker : workers) {
      worker.join();
    }
    best = std::min(best, *std::max_element(ns.begin(), ns.end()) / static_cast<double>(calls));
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const int threads = argc > 2 ? atoi(argv[2]) : 1;
  const long calls = argc > 3 ? atol(argv[3]) : 2'000'000;
  void* memory;
  cudaMalloc(&memory, 1);  // recording starts here, not in the loop
  if (mode == "launch") {
    printf("%.2f\n", measure(0, launches, calls, threads));
  } else if (mode == "stack") {
    printf("%.2f\n",
           measure(kFrames - 3, synchronisations, calls, threads));  // below start and main
  } else if (mode == "block") {
    printf("%.2f\n", measure(kFrames - 3, blocks, calls, threads));
  } else if (mode == "malloc") {
    printf("%.2f\n", measure(kFrames - 3, allocations, calls, threads));
  } else if (mode == "range") {
    printf("%.2f\n", measure(0, ranges, calls, threads));
  } else if (mode == "nothing") {
    printf("%.2f\n", measure(0, nothing, calls, threads));
  } else {
    fprintf(stderr, "call_cost: launch, stack, block, range, malloc or nothing, not '%s'\n",
            mode.c_str());
    return 2;
  }
}
