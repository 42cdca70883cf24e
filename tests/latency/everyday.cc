#include "everyday.h"

#include <unistd.h>

#include <vector>

#include "common/check.h"
#include "common/check_driver.h"
#include "common/nccl_ranks.h"
#include "common/ranks.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

void host_does(int us) {
  if (us != 0) {
    usleep(static_cast<useconds_t>(us));
  }
}

// As PyTorch's item().
void read_value(Job& job) {
  static float value = 0;
  CUDA_CHECK(
      cudaMemcpyAsync(&value, job.gradients, sizeof value, cudaMemcpyDeviceToHost, job.stream));
  job.synchronise();
}

struct Memory {
  Memory(size_t bytes, bool is_pinned) : bytes(bytes) {
    if (is_pinned) {
      CUDA_CHECK(cudaMallocHost(&host, bytes));
    } else {
      pageable.resize(bytes, 1);
      host = pageable.data();
    }
    CUDA_CHECK(cudaMalloc(&device, bytes));
  }
  void* host = nullptr;
  void* device = nullptr;
  size_t bytes;
  std::vector<char> pageable;
};

void train(Job& job) {
  job.step(world_size() > 1);
  CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
}

// The weights come to the host and are written, after each so-manieth step.
void checkpoints(Job& job, int steps, int every, int us) {
  Memory weights(32 * kMiB, false);
  for (int i = 0; i < steps; ++i) {
    train(job);
    read_value(job);
    if (i % every == every - 1) {
      CUDA_CHECK(cudaMemcpyAsync(weights.host, weights.device, weights.bytes,
                                 cudaMemcpyDeviceToHost, job.stream));
      job.synchronise();
      host_does(us);
    }
  }
}

// After half of the steps `batches` of another loop, with a value read behind each.
void evaluates(Job& job, int steps, int batches, int us) {
  for (int i = 0; i < steps; ++i) {
    train(job);
    if (i == steps / 2) {
      for (int batch = 0; batch < batches; ++batch) {
        job.launch(job.forward, 2);
        read_value(job);
        host_does(us);
      }
    }
  }
}

void stands_still(Job& job, int steps, int us, bool reads, bool (*is_due)(int)) {
  for (int i = 0; i < steps; ++i) {
    train(job);
    if (reads) {
      read_value(job);
    }
    if (is_due(i)) {
      host_does(us);
    }
  }
}

// `count` kernels, each of which the host takes so long to launch.
void launches_tiny(Job& job, int steps, int count, int us, bool reads) {
  CUfunction tiny = job.kernel("tiny_0");
  for (int i = 0; i < steps; ++i) {
    CUDA_CHECK(cudaEventRecord(job.begins.next(), job.stream));
    for (int k = 0; k < count; ++k) {
      const int64_t until = now_ns() + int64_t{1000} * us;
      while (now_ns() < until) {
      }
      job.launch(tiny);
    }
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    if (reads) {
      read_value(job);
    }
  }
}

// The norm of each of so many parameters is read, each behind a kernel of its own.
void clips(Job& job, int steps, int reads, int us) {
  CUfunction norm = job.kernel("tiny_0");
  for (int i = 0; i < steps; ++i) {
    job.launch(job.forward);
    job.launch(job.backward);
    for (int k = 0; k < 40; ++k) {
      job.launch(norm);
      if (k < reads) {
        read_value(job);
        host_does(us);
      }
    }
    job.launch(job.update);
  }
}

// A batch goes to the GPU before each step.
void feeds(Job& job, int steps, size_t bytes, bool is_pinned, bool synchronises, bool reads) {
  Memory batch(bytes, is_pinned);
  int64_t before_first_step = 0;
  for (int i = 0; i < steps; ++i) {
    const int64_t began = now_ns();
    CUDA_CHECK(
        cudaMemcpyAsync(batch.device, batch.host, batch.bytes, cudaMemcpyHostToDevice, job.stream));
    if (synchronises) {
      job.synchronise();
    }
    before_first_step = i == 0 ? now_ns() - began : before_first_step;
    train(job);
    if (reads) {
      read_value(job);
    }
  }
  job.synchronise();
  say("lost_ns", job.begins.since(job.ends, 1));
  say("lost_before_ns", before_first_step);
}

void allocates_in_loop(Job& job, int steps, int per_step, bool reads) {
  for (int i = 0; i < steps; ++i) {
    for (int k = 0; k < per_step; ++k) {
      void* memory = nullptr;
      CUDA_CHECK(cudaMalloc(&memory, kMiB));
      job.launch(job.forward);
      CUDA_CHECK(cudaFree(memory));
    }
    job.launch(job.forward);
    job.launch(job.backward);
    job.launch(job.update);
    if (reads) {
      read_value(job);
    }
  }
}

// The gradients are reduced in buckets, each behind its part of the backward pass; or all of them
// behind it.
void reduces_buckets(Job& job, int steps, size_t buckets, bool overlaps, bool reads) {
  for (int i = 0; i < steps; ++i) {
    job.launch(job.forward);
    const size_t layers = job.backward.size() / buckets;
    for (size_t bucket = 0; bucket < buckets; ++bucket) {
      for (size_t layer = 0; layer < layers; ++layer) {
        job.launch(job.backward[bucket * layers + layer]);
      }
      if (overlaps) {
        job.order(job.stream, job.side);
        NCCL_CHECK(ncclAllReduce(job.gradients, job.gradients, 1024, ncclFloat32, ncclSum, job.comm,
                                 job.side));
      }
    }
    for (size_t bucket = 0; !overlaps && bucket < buckets; ++bucket) {
      job.order(job.stream, job.side);
      NCCL_CHECK(ncclAllReduce(job.gradients, job.gradients, 1024, ncclFloat32, ncclSum, job.comm,
                               job.side));
    }
    job.order(job.side, job.stream);
    job.launch(job.update);
    if (reads) {
      read_value(job);
    }
  }
}

// Rank 1 comes late to the steps from `from` until `until`.
void straggles(Job& job, int steps, int us, int from, int until) {
  for (int i = 0; i < steps; ++i) {
    if (world_rank() == 1 && i >= from && i < until) {
      host_does(us);
    }
    train(job);
    read_value(job);
  }
}

// As tensor, pipeline and data parallel ranks: each is in one group along each axis, of 3, 2 and 2.
std::vector<ncclComm_t> groups_of(Job& job) {
  std::vector<ncclComm_t> groups;
  int stride = 1;
  for (const int size : {3, 2, 2}) {
    const int place = world_rank() / stride % size;
    ncclComm_t group = nullptr;
    NCCL_CHECK(
        ncclCommSplit(job.comm, world_rank() - place * stride, world_rank(), &group, nullptr));
    groups.push_back(group);
    stride *= size;
  }
  return groups;
}

// One rank comes late to each step: most of the others are in no group with it.
void trains_in_groups(Job& job, int steps, int late, int us) {
  const std::vector<ncclComm_t> groups = groups_of(job);
  for (int i = 0; i < steps; ++i) {
    if (world_rank() == late) {
      host_does(us);
    }
    job.launch(job.forward);
    for (const ncclComm_t group : groups) {
      job.launch(job.backward[0]);
      job.order(job.stream, job.side);
      NCCL_CHECK(
          ncclAllReduce(job.gradients, job.gradients, 1024, ncclFloat32, ncclSum, group, job.side));
      job.order(job.side, job.stream);
    }
    job.launch(job.update);
    read_value(job);
  }
}

}  // namespace

std::map<std::string, std::function<void(Job&, int)>> everyday_cases() {
  const auto each_20th = [](int i) { return i % 20 == 19; };
  const auto each_5th = [](int i) { return i % 5 == 4; };
  const auto uneven = [](int i) { return i * 7919 % 13 < 2; };
  const auto two = [](int i) { return i == 17 || i == 41; };
  const auto never = [](int) { return false; };
  return {
      {"checkpoint", [](Job& job, int steps) { checkpoints(job, steps, 20, 300'000); }},
      {"checkpoint-quick", [](Job& job, int steps) { checkpoints(job, steps, 20, 10'000); }},
      {"checkpoint-never", [](Job& job, int steps) { checkpoints(job, steps, steps + 1, 0); }},
      {"evaluation-slow", [](Job& job, int steps) { evaluates(job, steps, 30, 10'000); }},
      {"evaluation", [](Job& job, int steps) { evaluates(job, steps, 30, 0); }},
      {"evaluation-quick", [](Job& job, int steps) { evaluates(job, steps, 30, 500); }},
      {"hiccup", [=](Job& job, int steps) { stands_still(job, steps, 60'000, true, uneven); }},
      {"hiccup-short", [=](Job& job, int steps) { stands_still(job, steps, 3'000, true, uneven); }},
      {"hiccup-never", [=](Job& job, int steps) { stands_still(job, steps, 0, true, never); }},
      {"hiccup-twice", [=](Job& job, int steps) { stands_still(job, steps, 60'000, true, two); }},
      {"hiccup-ahead",
       [=](Job& job, int steps) { stands_still(job, steps, 60'000, false, uneven); }},
      {"collection",
       [=](Job& job, int steps) { stands_still(job, steps, 20'000, true, each_5th); }},
      {"collection-seldom",
       [=](Job& job, int steps) { stands_still(job, steps, 20'000, true, each_20th); }},
      {"tiny", [](Job& job, int steps) { launches_tiny(job, steps, 300, 30, true); }},
      {"tiny-unread", [](Job& job, int steps) { launches_tiny(job, steps, 300, 30, false); }},
      {"tiny-quick-host", [](Job& job, int steps) { launches_tiny(job, steps, 300, 2, true); }},
      {"clipping", [](Job& job, int steps) { clips(job, steps, 40, 100); }},
      {"clipping-quick", [](Job& job, int steps) { clips(job, steps, 40, 0); }},
      {"clipping-once", [](Job& job, int steps) { clips(job, steps, 1, 0); }},
      {"batches", [](Job& job, int steps) { feeds(job, steps, 32 * kMiB, false, true, true); }},
      {"batches-unread",
       [](Job& job, int steps) { feeds(job, steps, 32 * kMiB, false, false, false); }},
      {"batches-small", [](Job& job, int steps) { feeds(job, steps, kMiB, false, true, true); }},
      {"batches-pinned",
       [](Job& job, int steps) { feeds(job, steps, 32 * kMiB, true, false, true); }},
      {"allocations", [](Job& job, int steps) { allocates_in_loop(job, steps, 4, true); }},
      {"allocations-unread", [](Job& job, int steps) { allocates_in_loop(job, steps, 4, false); }},
      {"allocations-few", [](Job& job, int steps) { allocates_in_loop(job, steps, 1, true); }},
      {"allocations-none", [](Job& job, int steps) { allocates_in_loop(job, steps, 0, true); }},
      {"buckets-behind", [](Job& job, int steps) { reduces_buckets(job, steps, 5, false, true); }},
      {"buckets-beside", [](Job& job, int steps) { reduces_buckets(job, steps, 5, true, true); }},
      {"buckets-unread", [](Job& job, int steps) { reduces_buckets(job, steps, 5, true, false); }},
      {"late-for-a-while",
       [](Job& job, int steps) { straggles(job, steps, 15'000, steps / 3, 3 * steps / 4); }},
      {"late-always", [](Job& job, int steps) { straggles(job, steps, 15'000, 0, steps); }},
      {"late-twice",
       [](Job& job, int steps) { straggles(job, steps, 15'000, steps / 3, steps / 3 + 2); }},
      {"groups-late", [](Job& job, int steps) { trains_in_groups(job, steps, 5, 15'000); }},
      {"groups", [](Job& job, int steps) { trains_in_groups(job, steps, -1, 0); }},
      {"late-never", [](Job& job, int steps) { straggles(job, steps, 0, 0, 0); }},
  };
}
