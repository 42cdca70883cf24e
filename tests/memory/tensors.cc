// As memory.cc, with PyTorch's allocator (simgpu's libc10_cuda).
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "program.h"
#include "tests/simgpu/c10/c10_cuda.h"
#include "tests/simgpu/c10/profiler.h"

namespace at::cuda {
// NOLINTNEXTLINE(readability-identifier-naming)
void* getCurrentCUDABlasHandle(void* (*allocate)());  // workspace.cc
}  // namespace at::cuda

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

// Whoever multiplies first makes PyTorch allocate that for cuBLAS.
void growth_beside_a_workspace() {
  constexpr size_t kWorkspace = 32 * kMiB;
  at::cuda::getCurrentCUDABlasHandle([] { return tensor(kWorkspace); });
  growth(40, kMiB);
  say("held.cuBLAS-workspace", kWorkspace);
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

// Of what comes late nothing says yet that it will stay.
void weights_amid_steps(int before) {
  steps(before);
  weights(16 * kMiB);
  steps(400 - before);
  say("bytes", size_t{5} * 16 * kMiB);
  say("block_count", 5);
}

void say_totals() {
  C10Stats stats = {};
  c10sim_stats(0, &stats);
  say("reserved_bytes", stats.peak_reserved);
  say("allocated_bytes", stats.peak_allocated);
}

// Every segment of 20 MiB has a block that stays, and beside it room for 9 MiB; then come requests
// for 10, in one step: kept in as many steps they would be a leak.
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
  }
  launch();
  say_totals();
  say("requested_bytes", 10 * kMiB);
  say("unusable_bytes", 16UL * (9 + 2) * kMiB);
  say("largest_bytes", 9 * kMiB);
}

// What other streams have freed is of no use to this one: held, and idle for another reason.
void take_on_streams(int count) {
  for (int i = 0; i < count; ++i) {
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    c10sim_free(tensor(100 * kMiB, stream));
  }
}

void few_pieces() {
  void* pairs[6] = {};
  for (void*& block : pairs) {
    block = tensor(9 * kMiB);
  }
  for (size_t i = 0; i < 6; i += 2) {
    c10sim_free(pairs[i]);
  }
  tensor(10 * kMiB);
  launch();
  take_on_streams(4);
}

// Nine sizes, for none of which there were 64 MiB that did not fit.
void shapes_of_little() {
  for (size_t round = 0; round < 3; ++round) {
    for (size_t size = 12; size <= 20; size += 2) {
      c10sim_free(tensor(size * kMiB - (round == 0 ? 0 : (4 + round) * kMiB / 4)));
      launch();
    }
    c10sim_empty_cache();
  }
  take_on_streams(4);
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

// In the end all that was taken is in use.
void shapes_then_all() {
  shapes(12 * kMiB, 2 * kMiB, 10);
  for (size_t i = 10; i-- > 0;) {
    tensor((12 + 2 * i) * kMiB);
  }
  launch();
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

void flush_cache(int steps, int every) {
  size_t flushes = 0;
  for (int i = 0; i < steps; ++i) {
    step();
    if (i % every == 0) {
      c10sim_empty_cache();
      ++flushes;
    }
  }
  say("flush_count", flushes);
  say("freed_bytes", flushes * 2 * kMiB);
}

// Before the work: nothing that repeats.
void flush_without_steps() {
  for (int i = 0; i < 20; ++i) {
    c10sim_free(tensor(3000));
    c10sim_empty_cache();
  }
  launch();
}

[[gnu::noinline]] void evaluate() {
  c10sim_free(tensor(3000));
  c10sim_empty_cache();
}
// Of the two places only the first one is in the loop.
void flush_at_two_places() {
  for (int i = 0; i < 200; ++i) {
    step();
    c10sim_empty_cache();
    if (i % 20 == 0) {
      evaluate();
    }
  }
  say("flush_count", 200);
  say("freed_bytes", size_t{200} * 2 * kMiB);
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

// It is freed `steps` behind that in which it was taken.
void long_spike(int steps) {
  tensor(100 * kMiB);
  void* block = nullptr;
  for (int i = 0; i < 40; ++i) {
    void* const first = activation();
    launch();
    c10sim_free(first);
    if (i == 20) {
      block = tensor(80 * kMiB);
    } else if (i == 20 + steps) {
      c10sim_free(block);
    }
  }
  say("peak_bytes", 190 * kMiB);
  say("block_bytes", 80 * kMiB);
  say("saved_bytes", 80 * kMiB);
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

// What stays lies where something else was for a moment.
void same_place_again() {
  tensor(100 * kMiB);
  c10sim_free(tensor(80 * kMiB - 512));
  for (int i = 0; i < 20; ++i) {
    launch();
    if (i == 10) {
      void* const stays = tensor(80 * kMiB);
      void* const on_top = tensor(12 * kMiB);
      CHECK(stays != nullptr && on_top != nullptr, "no memory");
    }
  }
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

// Others got segments for it.
void unreported_segments(size_t more) {
  void* const memory = tensor(3000);
  C10Stats stats = {};
  c10sim_stats(0, &stats);
  const c10::Device device = {c10::kCuda, 0};
  char* const beside = static_cast<char*>(memory) + 8192;
  for (const int64_t change : {512, -512}) {
    c10::reportMemoryUsageToProfiler(beside, change,
                                     stats.allocated + static_cast<size_t>(change > 0 ? change : 0),
                                     stats.reserved + more, device);
  }
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

// Each step leaves as many blocks, in turn of two lines.
void many_steps(int steps, int blocks) {
  for (int i = 0; i < steps; ++i) {
    step();
    for (int k = 0; k < blocks; k += 2) {
      tensor(512);
      tensor(1024);
    }
  }
  say("live", static_cast<size_t>(steps) * static_cast<size_t>(blocks));
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

// The tracer's own thread hardly runs: it has the lowest priority on the one processor that it
// shares with this.
void starve_own_thread() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "not put on one processor");
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name == "traintrace") {
      const pid_t tid = std::stoi(task.path().filename());
      const sched_param lowest = {};
      CHECK(sched_setaffinity(tid, sizeof one, &one) == 0 &&
                sched_setscheduler(tid, SCHED_IDLE, &lowest) == 0,
            "not starved");
      return;
    }
  }
  CHECK(false, "no thread of the tracer");
}

void faster_than_own_thread() {
  tensor(1);
  starve_own_thread();
  constexpr size_t kBlocks = 400'000;
  for (size_t i = 0; i < kBlocks; ++i) {
    tensor(1);
  }
  say("live", kBlocks + 1);
}

// Memory is missed again and again while ever more is free, in pieces among that many blocks.
void ever_more_pieces(size_t blocks) {
  constexpr size_t kSmall = 10240;
  std::vector<void*> live;
  for (size_t i = 0; i < blocks; ++i) {
    live.push_back(tensor(kSmall));
  }
  for (size_t i = 0; i + 400 < blocks; i += 400) {
    c10sim_free(live[i]);
    for (int j = 0; j < 100; ++j) {  // a segment full of what does not fit there
      tensor(2 * kSmall);
    }
  }
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
    {"tensors-many-steps", [] { many_steps(100'000, 100); }},
    {"tensors-two-million", [] { two_million(50'000); }},
    {"tensors-two-million-large", [] { two_million(250'000); }},
    {"tensors-faster-than-own-thread", faster_than_own_thread},
    {"tensors-pieces-50k", [] { ever_more_pieces(50'000); }},
    {"tensors-pieces-100k", [] { ever_more_pieces(100'000); }},
    {"tensors-pieces-200k", [] { ever_more_pieces(200'000); }},
    {"tensors-pieces-400k", [] { ever_more_pieces(400'000); }},
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
    {"tensors-few-pieces", few_pieces},
    {"tensors-shapes-of-little", shapes_of_little},
    {"tensors-seven-shapes", [] { shapes(12 * kMiB, 2 * kMiB, 9); }},
    {"tensors-shapes-then-all", shapes_then_all},
    {"tensors-eight-shapes", [] { shapes(12 * kMiB, 2 * kMiB, 10); }},
    {"tensors-pending", [] { behind_a_stream(32 * kMiB, true); }},
    {"tensors-not-pending", [] { behind_a_stream(32 * kMiB, false); }},
    {"tensors-hardly-pending", [] { behind_a_stream(kMiB, true); }},
    {"tensors-retries", [] { take_turns(20); }},
    {"tensors-one-retry", [] { take_turns(2); }},
    {"tensors-three-retries", [] { take_turns(4); }},
    {"tensors-four-retries", [] { take_turns(5); }},
    {"tensors-flushes", [] { flush_cache(200, 1); }},
    {"tensors-few-flushes", [] { flush_cache(200, 50); }},
    {"tensors-flushes-of-a-third", [] { flush_cache(200, 3); }},
    {"tensors-flushes-of-a-half", [] { flush_cache(16, 2); }},
    {"tensors-seven-flushes", [] { flush_cache(14, 2); }},
    {"tensors-flushes-without-steps", flush_without_steps},
    {"tensors-flushes-at-two-places", flush_at_two_places},
    {"tensors-spike", [] { spike(100 * kMiB, 80 * kMiB, 1, true); }},
    {"tensors-low-spike", [] { spike(100 * kMiB, 30 * kMiB, 1, true); }},
    {"tensors-lone-spike", [] { spike(20 * kMiB, 200 * kMiB, 1, true); }},
    {"tensors-high-spike", [] { spike(60 * kMiB, 200 * kMiB, 1, true); }},
    {"tensors-spike-of-two-steps", [] { long_spike(1); }},
    {"tensors-spike-of-three-steps", [] { long_spike(2); }},
    {"tensors-spike-at-first", spike_at_first},
    {"tensors-same-place-again", same_place_again},
    {"tensors-two-spikes", [] { spike(100 * kMiB, 80 * kMiB, 2, true); }},
    {"tensors-no-spike", [] { spike(100 * kMiB, 80 * kMiB, 1, false); }},
    {"tensors-unreported", [] { unreported(4096, 4096); }},
    {"tensors-unreported-for-a-while", [] { unreported(4096, 0); }},
    {"tensors-reported", [] { unreported(0, 0); }},
    {"tensors-segments-unreported", [] { unreported_segments(4096); }},
    {"tensors-reported-late", [] { reported_late(4096); }},
    {"tensors-growth", [] { growth(200, 30'000); }},
    {"tensors-workspace", growth_beside_a_workspace},
    {"tensors-hour", hour},
    {"tensors-losses", [] { growth(200, 4); }},
    {"tensors-graph", retained_graph},
    {"tensors-sawtooth", sawtooth},
    {"tensors-cache", bounded_cache},
    {"tensors-weights", [] { weights_then_steps(16 * kMiB, 400); }},
    {"tensors-small-weights", [] { weights_then_steps(12 * kMiB, 400); }},
    {"tensors-weights-of-few-steps", [] { weights_then_steps(16 * kMiB, 7); }},
    {"tensors-late-weights", [] { weights_amid_steps(200); }},
    {"tensors-early-weights", [] { weights_amid_steps(40); }},
};

}  // namespace

int main(int argc, char** argv) {
  return run_case(kCases, argc, argv);
}
