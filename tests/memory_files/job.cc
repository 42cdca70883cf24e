// A program that takes memory in every way, and says what it holds: `memory_job SEED STEPS
// STREAMS`. Prints `segment ADDRESS BYTES`, `block ADDRESS BYTES STATE` of PyTorch's allocator, and
// totals.  With one stream all runs do the same; with 3 some of what two share is waited for at the
// end.  LIMIT: no file may become larger, from when all
// have been made.
#include <cuda_runtime_api.h>
#include <sys/resource.h>
#include <unistd.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "c10_cuda.h"
#include "common/check.h"

extern "C" void cublas_like_workspace(size_t bytes);

namespace {

size_t any_size(std::mt19937& random) {
  const size_t magnitude = random() % 14;
  return 1 + (random() % 1024 << magnitude);
}

void* keep(size_t bytes) {
  void* const memory = c10sim_malloc(bytes, nullptr);
  CHECK(memory != nullptr, "out of memory");
  return memory;
}

void work(unsigned seed, int steps, cudaStream_t other, bool two_streams) {
  std::mt19937 random(seed);
  std::vector<void*> live;
  for (int i = 0; i < steps; ++i) {
    if (live.size() < 300 && random() % 5 < 3) {
      live.push_back(keep(any_size(random)));
    } else if (!live.empty()) {
      const size_t which = random() % live.size();
      if (two_streams && random() % 8 == 0) {
        c10sim_record_stream(live[which], other);
      }
      c10sim_free(live[which]);
      live[which] = live.back();
      live.pop_back();
    }
    if (i % 1000 == 999) {
      for (; live.size() > 10; live.pop_back()) {
        c10sim_free(live.back());
      }
      c10sim_empty_cache();
    }
  }
}

void leave_pending(cudaStream_t other) {
  for (size_t i = 0; i < 3; ++i) {
    void* const memory = keep((i + 1) << 10);
    c10sim_record_stream(memory, other);
    c10sim_free(memory);
  }
}

void say_block(const C10Block* block, void* seen) {
  auto& segments = *static_cast<std::map<const void*, uint64_t>*>(seen);
  segments[block->segment] += block->bytes;
  printf("block %lu %lu %d\n", reinterpret_cast<uint64_t>(block->address), block->bytes,
         block->state);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc >= 4, "usage: memory_job SEED STEPS STREAMS [LIMIT]");
  cudaStream_t other = nullptr;
  CUDA_CHECK(cudaStreamCreate(&other));
  void* freed = nullptr;
  CUDA_CHECK(cudaMalloc(&freed, 1 << 20));
  CUDA_CHECK(cudaFree(freed));
  void* own = nullptr;
  CUDA_CHECK(cudaMalloc(&own, 3 << 20));
  cublas_like_workspace(5 << 20);
  void* pinned = nullptr;
  CUDA_CHECK(cudaMallocHost(&pinned, 4096));
  if (argc > 4) {
    const rlimit limit = {std::stoul(argv[4]), std::stoul(argv[4])};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "no limit of files");
  }
  work(static_cast<unsigned>(std::stoi(argv[1])), std::stoi(argv[2]), other, argv[3][0] != '1');
  if (argv[3][0] == '3') {
    leave_pending(other);
  } else {
    CUDA_CHECK(cudaDeviceSynchronize());
    c10sim_free(keep(512));  // what streams held is free now
  }
  std::map<const void*, uint64_t> segments;
  c10sim_snapshot(0, say_block, &segments);
  for (const auto& [address, bytes] : segments) {
    printf("segment %lu %lu\n", reinterpret_cast<uint64_t>(address), bytes);
  }
  C10Stats stats = {};
  c10sim_stats(0, &stats);
  printf("total allocated %lu\ntotal reserved %lu\ntotal peak %lu\ntotal peak_reserved %lu\n",
         stats.allocated, stats.reserved, stats.peak_allocated, stats.peak_reserved);
  printf("total own %d\ntotal library %d\ntotal pinned 4096\n", 3 << 20, 5 << 20);
  fflush(stdout);
  _exit(0);
}
