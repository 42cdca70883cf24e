// As memory.cc, with PyTorch's allocator (simgpu's libc10_cuda).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "program.h"
#include "tests/simgpu/c10/c10_cuda.h"
#include "tests/simgpu/c10/profiler.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

// Inlined, all that is allocated would come from one place.
[[gnu::noinline]] void* tensor(size_t bytes, cudaStream_t stream = nullptr) {
  void* const memory = c10sim_malloc(bytes, stream);
  CHECK(memory != nullptr, "no %zu bytes", bytes);
  return memory;
}

size_t rounded(size_t bytes) {
  return (bytes + 511) / 512 * 512;
}

// Work, and tensors that go with it.
void step() {
  void* const input = tensor(3000);
  void* const output = tensor(5000);
  launch();
  c10sim_free(input);
  c10sim_free(output);
}

void growth(int steps, size_t bytes) {
  const auto kept = static_cast<size_t>(steps);
  for (int i = 0; i < steps; ++i) {
    step();
    tensor(bytes);
  }
  say("bytes", kept * rounded(bytes));
  say("block_count", kept);
}

// An hour of ten steps a second.  Three milliseconds stand for ten seconds, so that a moment
// without the processor is not a large part of it.
void hour() {
  size_t kept = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 36'000; ++i) {
    step();
    if (i % 100 == 0) {
      tensor(kMiB);
      ++kept;
      std::this_thread::sleep_until(begin + i / 100 * std::chrono::milliseconds(10));
    }
  }
  say("bytes", kept * kMiB);
  say("block_count", kept);
}

// What a loss needs for its gradient stays for as long as somebody has the loss.
[[gnu::noinline]] void* hidden_layer() {
  return tensor(40'000);
}
[[gnu::noinline]] void* loss_of(const void* hidden) {
  launch();
  return hidden != nullptr ? tensor(4) : nullptr;
}

void retained_graph() {
  std::vector<void*> losses;
  for (int i = 0; i < 200; ++i) {
    step();
    losses.push_back(loss_of(hidden_layer()));
  }
  say("bytes", losses.size() * (rounded(40'000) + rounded(4)));
  say("block_count", 2 * losses.size());
  say("bytes_per_step", rounded(40'000) + rounded(4));
}

void sawtooth() {
  std::vector<void*> garbage;
  for (int i = 0; i < 430; ++i) {
    step();
    garbage.push_back(tensor(40'000));
    for (; garbage.size() == 50; garbage.clear()) {
      for (void* const memory : garbage) {
        c10sim_free(memory);
      }
    }
  }
}

// Grows until it is full, then the oldest goes.
void bounded_cache() {
  std::deque<void*> cache;
  for (int i = 0; i < 400; ++i) {
    step();
    cache.push_back(tensor(40'000));
    if (cache.size() > 100) {
      c10sim_free(cache.front());
      cache.pop_front();
    }
  }
}

void weights(size_t bytes) {
  for (int i = 0; i < 5; ++i) {
    tensor(bytes);
    launch();
  }
}
// Inlined, each would be another place that steps.
[[gnu::noinline]] void steps(int count) {
  for (int i = 0; i < count; ++i) {
    step();
  }
}

void weights_then_steps(size_t bytes, int count) {
  weights(bytes);
  steps(count);
  say("bytes", 5 * bytes);
  say("block_count", 5);
}

// Nothing says yet that what comes so late will stay.
void weights_amid_steps() {
  steps(200);
  weights(16 * kMiB);
  steps(200);
}

void say_totals() {
  C10Stats stats = {};
  c10sim_stats(0, &stats);
  say("reserved_bytes", stats.peak_reserved);
  say("allocated_bytes", stats.peak_allocated);
}

// Every segment of 20 MiB has a block that stays, and beside it room for 9 MiB; then come requests
// for 10.
void fragment(int requests, bool free_all) {
  std::vector<void*> pairs;
  pairs.reserve(32);
  for (int i = 0; i < 32; ++i) {
    pairs.push_back(tensor(9 * kMiB));
  }
  for (size_t i = 0; i < pairs.size(); i += free_all ? 1 : 2) {
    c10sim_free(pairs[i]);
  }
  for (int i = 0; i < requests; ++i) {
    tensor(10 * kMiB);
    launch();
  }
  say_totals();
  say("requested_bytes", 10 * kMiB);
  say("unusable_bytes", 16UL * (9 + 2) * kMiB);
  say("largest_bytes", 9 * kMiB);
}

// Each step is a little larger than the one before; or the other way round.
void shapes(size_t first, size_t more, int count) {
  for (int i = 0; i < count; ++i) {
    void* const batch = tensor(first + static_cast<size_t>(i) * more);
    launch();
    c10sim_free(batch);
  }
  say_totals();
}

std::atomic<bool> g_may_go_on = false;

// Blocks are freed while another stream, which is not done, has yet to use them.
void behind_a_stream(size_t bytes, bool is_slow) {
  cudaStream_t other = nullptr;
  CUDA_CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  g_may_go_on = !is_slow;
  CUDA_CHECK(cudaLaunchHostFunc(
      other, [](void*) { g_may_go_on.wait(false); }, nullptr));
  for (int i = 0; i < 8; ++i) {
    void* const batch = tensor(bytes);
    launch();
    c10sim_record_stream(batch, other);
    if (!is_slow) {
      CUDA_CHECK(cudaStreamSynchronize(other));
    }
    c10sim_free(batch);
    if (!is_slow) {
      CUDA_CHECK(cudaStreamSynchronize(other));
    }
  }
  say("pending_bytes", 8 * bytes);
  say("extra_bytes", 7 * bytes);
  g_may_go_on = true;
  g_may_go_on.notify_all();
}

// Two streams, each with a block, and there is room for one.
void take_turns(int turns) {
  cudaStream_t other = nullptr;
  CUDA_CHECK(cudaStreamCreate(&other));
  for (int i = 0; i < turns; ++i) {
    c10sim_free(tensor(40 * kMiB, i % 2 == 0 ? nullptr : other));
    launch();
  }
  C10Stats stats = {};
  c10sim_stats(0, &stats);
  say("retry_count", stats.retries);
  say("freed_bytes", stats.retries * 40 * kMiB);
}

void flush_cache(int every) {
  size_t flushes = 0;
  for (int i = 0; i < 200; ++i) {
    step();
    if (i % every == 0) {
      c10sim_empty_cache();
      ++flushes;
    }
  }
  say("flush_count", flushes);
  say("freed_bytes", flushes * 2 * kMiB);
}

// Weights, activations of each step, and for a moment something else.
[[gnu::noinline]] void* activation() {
  return tensor(10 * kMiB);
}
void spike(size_t rest, size_t bytes, int blocks, bool is_short) {
  tensor(rest);
  std::vector<void*> last;
  for (int i = 0; i < 20; ++i) {
    void* const first = activation();
    void* const second = activation();
    launch();
    for (int j = 0; j < blocks && (is_short || i == 10); ++j) {
      last.push_back(tensor(bytes));
    }
    for (void* const block : last) {
      if (is_short) {
        c10sim_free(block);
      }
    }
    last.clear();
    c10sim_free(first);
    c10sim_free(second);
  }
  say("peak_bytes", rest + 20 * kMiB + bytes);
  say("block_bytes", bytes);
  say("saved_bytes", bytes);
}

// Taken before the first step, which is long in coming.
void spike_at_first() {
  tensor(100 * kMiB);
  void* const block = tensor(80 * kMiB);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (int i = 0; i < 40; ++i) {
    launch();
    if (i == 0) {
      c10sim_free(block);
    }
  }
  say("block_bytes", 80 * kMiB);
}

// The allocator has memory in use that it never reported: still at the end, or for a while.
void unreported(size_t more, size_t at_end) {
  void* const memory = tensor(3000);
  C10Stats stats = {};
  c10sim_stats(0, &stats);
  const c10::Device device = {c10::kCuda, 0};
  char* const beside = static_cast<char*>(memory) + 8192;
  c10::reportMemoryUsageToProfiler(beside, int64_t{512}, stats.allocated + 512 + more,
                                   stats.reserved, device);
  c10::reportMemoryUsageToProfiler(beside, int64_t{-512}, stats.allocated + at_end, stats.reserved,
                                   device);
  launch();
  say("bytes", more);
}

// Memory was in use before the first report.
void reported_late(size_t before) {
  void* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, kMiB));
  const c10::Device device = {c10::kCuda, 0};
  c10::reportMemoryUsageToProfiler(memory, int64_t{512}, 512 + before, kMiB, device);
  launch();
  say("bytes", before);
}

// Blocks of any size come and go on two streams, each of which may use those of the other.
void churn() {
  cudaStream_t streams[2] = {};
  CUDA_CHECK(cudaStreamCreate(&streams[1]));
  std::mt19937 random(7);
  std::vector<void*> live;
  for (int i = 0; i < 20'000; ++i) {
    if (live.size() < 200 && random() % 5 < 3) {
      const size_t magnitude = random() % 12;
      live.push_back(tensor(1 + (random() % 1024 << magnitude), streams[random() % 2]));
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      if (random() % 4 == 0) {
        c10sim_record_stream(live.back(), streams[random() % 2]);
      }
      c10sim_free(live.back());
      live.pop_back();
    }
    if (i % 100 == 0) {
      launch();
    }
    if (i % 1000 == 999) {
      c10sim_empty_cache();
    }
  }
}

// A million blocks come and go; up to `limit` at a time.
void two_million(size_t limit) {
  std::mt19937 random(7);
  std::vector<void*> live;
  size_t most = 0;
  for (int taken = 0; taken < 1'000'000 || !live.empty();) {
    const bool full = live.size() >= limit || taken == 1'000'000;
    if (!full && random() % 8 < 5) {
      live.push_back(tensor(1 + random() % 4096));
      ++taken;
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      c10sim_free(live.back());
      live.pop_back();
    }
    most = std::max(most, live.size());
  }
  C10Stats stats = {};
  c10sim_stats(0, &stats);
  say("reports", stats.allocations + stats.frees);
  say("live", most);
}

// One of the ranks has what the others have not.
[[gnu::noinline]] void* logits(size_t bytes) {
  return bytes == 0 ? nullptr : tensor(bytes);
}
void ranks_with(size_t bytes) {
  tensor(100 * kMiB);
  launch();
  const size_t more = own_rank() == 2 ? bytes : 0;
  logits(more);
  say(more == 0 ? "typical_bytes" : "peak_bytes", 100 * kMiB + more);
  say("surplus_bytes", bytes);
  say("same_count", 1);
  say("split_bytes", bytes);
}

[[gnu::noinline]] void* batch(size_t bytes) {
  return tensor(bytes);
}
void twenty() {
  CUDA_CHECK(cudaSetDevice(own_rank()));
  for (int i = 0; i < 20; ++i) {
    tensor(kMiB / 2);
  }
}
// One batch of a rank is too large, far behind the start; its threads take turns otherwise than
// those of the other ranks.
void a_batch_of_one_rank() {
  const auto in_a_thread = [] { std::thread(twenty).join(); };
  tensor(100 * kMiB);
  launch();
  if (own_rank() == 2) {
    in_a_thread();
  }
  twenty();
  if (own_rank() != 2) {
    in_a_thread();
  }
  for (int i = 0; i < 3000; ++i) {
    c10sim_free(i == 1500 ? batch(own_rank() == 2 ? 80 * kMiB : 1000) : tensor(1000));
  }
  say(own_rank() == 2 ? "peak_bytes" : "typical_bytes",
      120 * kMiB + (own_rank() == 2 ? 80 * kMiB : 1024));
  say("same_count", 21 + 1500);
  say("split_bytes", 80 * kMiB);
}

// One of two runs that are compared: one batch may be larger, and threads may take turns otherwise.
[[gnu::noinline]] void twenty_halves() {
  CUDA_CHECK(cudaSetDevice(own_rank()));
  for (int i = 0; i < 20; ++i) {
    tensor(kMiB / 2);
  }
}
[[gnu::noinline]] void forty_quarters() {
  CUDA_CHECK(cudaSetDevice(own_rank()));
  for (int i = 0; i < 40; ++i) {
    tensor(kMiB / 4);
  }
}
[[gnu::noinline]] void weight() {
  tensor(100 * kMiB);
}
void one_of_two_runs(size_t bytes, bool workers_first) {
  if (!workers_first) {
    weight();
    std::thread(twenty_halves).join();
  }
  std::thread(forty_quarters).join();
  if (workers_first) {
    std::thread(twenty_halves).join();
    weight();
  }
  for (int i = 0; i < 12'000; ++i) {
    c10sim_free(i == 1500 ? batch(bytes) : tensor(1000));
  }
  launch();
  say("peak_bytes", 120 * kMiB + rounded(bytes));
}

// Threads that are fast, and one that writes little.
void several_threads() {
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int j = 0; j < (i == 0 ? 100 : 30'000); ++j) {
        if (i == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        c10sim_free(tensor(1 + j % 5000));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

const Cases kCases = {
    {"tensors-good-run", [] { one_of_two_runs(1000, false); }},
    {"tensors-good-run-otherwise", [] { one_of_two_runs(1000, true); }},
    {"tensors-good-run-a-little-more", [] { one_of_two_runs(5 * kMiB, false); }},
    {"tensors-bad-run", [] { one_of_two_runs(80 * kMiB, false); }},
    {"tensors-bad-run-otherwise", [] { one_of_two_runs(80 * kMiB, true); }},
    {"tensors-two-million", [] { two_million(50'000); }},
    {"tensors-two-million-large", [] { two_million(250'000); }},
    {"tensors-one-rank", [] { ranks_with(80 * kMiB); }},
    {"tensors-batch-of-one-rank", a_batch_of_one_rank},
    {"tensors-threads", several_threads},
    {"tensors-equal-ranks", [] { ranks_with(0); }},
    {"tensors-one-rank-little", [] { ranks_with(20 * kMiB); }},
    {"tensors-churn", churn},
    {"tensors-fragmented", [] { fragment(14, false); }},
    {"tensors-not-fragmented", [] { fragment(16, true); }},
    {"tensors-hardly-fragmented", [] { fragment(2, false); }},
    {"tensors-shapes", [] { shapes(12 * kMiB, 2 * kMiB, 20); }},
    {"tensors-shapes-down", [] { shapes(50 * kMiB, ~(2 * kMiB) + 1, 20); }},
    {"tensors-few-shapes", [] { shapes(60 * kMiB, 20 * kMiB, 6); }},
    {"tensors-pending", [] { behind_a_stream(32 * kMiB, true); }},
    {"tensors-not-pending", [] { behind_a_stream(32 * kMiB, false); }},
    {"tensors-hardly-pending", [] { behind_a_stream(kMiB, true); }},
    {"tensors-retries", [] { take_turns(20); }},
    {"tensors-one-retry", [] { take_turns(2); }},
    {"tensors-flushes", [] { flush_cache(1); }},
    {"tensors-few-flushes", [] { flush_cache(50); }},
    {"tensors-spike", [] { spike(100 * kMiB, 80 * kMiB, 1, true); }},
    {"tensors-low-spike", [] { spike(100 * kMiB, 30 * kMiB, 1, true); }},
    {"tensors-lone-spike", [] { spike(20 * kMiB, 200 * kMiB, 1, true); }},
    {"tensors-spike-at-first", spike_at_first},
    {"tensors-two-spikes", [] { spike(100 * kMiB, 80 * kMiB, 2, true); }},
    {"tensors-no-spike", [] { spike(100 * kMiB, 80 * kMiB, 1, false); }},
    {"tensors-unreported", [] { unreported(4096, 4096); }},
    {"tensors-unreported-for-a-while", [] { unreported(4096, 0); }},
    {"tensors-reported", [] { unreported(0, 0); }},
    {"tensors-reported-late", [] { reported_late(4096); }},
    {"tensors-growth", [] { growth(200, 3000); }},
    {"tensors-hour", hour},
    {"tensors-losses", [] { growth(200, 4); }},
    {"tensors-graph", retained_graph},
    {"tensors-sawtooth", sawtooth},
    {"tensors-cache", bounded_cache},
    {"tensors-weights", [] { weights_then_steps(16 * kMiB, 400); }},
    {"tensors-small-weights", [] { weights_then_steps(12 * kMiB, 400); }},
    {"tensors-weights-of-few-steps", [] { weights_then_steps(16 * kMiB, 12); }},
    {"tensors-late-weights", weights_amid_steps},
};

}  // namespace

int main(int argc, char** argv) {
  return run_case(kCases, argc, argv);
}
