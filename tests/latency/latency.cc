// A rank of a job of steps that loses time in a known way: `latency CASE STEPS`, or the names of
// the cases without them.  Prints what it has lost itself, as `KEY NS`, the GPU's time by events on
// its streams; kernels, collectives and calls take what judge.py tells simgpu.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "common/check.h"
#include "common/check_driver.h"
#include "common/nccl_ranks.h"
#include "common/ranks.h"
#include "everyday.h"
#include "job.h"
#include "loops.h"
#include "pipelines.h"
#include "products.h"
#include "two_gpus.h"

namespace {

constexpr int kLostUs = 10'000;

// 5 ms on one stream, then 1 ms on the legacy stream, and 4 ms on another.  Streams that are not
// made to ignore the legacy one do so one after the other; or they wait for each other's events.
void on_three_streams(Job& job, int steps, unsigned flags, bool with_events) {
  cudaStream_t first = nullptr;
  cudaStream_t last = nullptr;
  CUDA_CHECK(cudaStreamCreateWithFlags(&first, flags));
  CUDA_CHECK(cudaStreamCreateWithFlags(&last, flags));
  const auto launch = [](CUfunction kernel, cudaStream_t stream) {
    CU_CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  };
  const auto let_wait = [&](cudaStream_t stream, cudaStream_t before) {
    CUDA_CHECK(cudaEventRecord(job.ready, before));
    CUDA_CHECK(cudaStreamWaitEvent(stream, job.ready, 0));
  };
  for (int i = 0; i < steps; ++i) {
    for (int kernel = 0; kernel < 5; ++kernel) {
      launch(job.backward[static_cast<size_t>(kernel)], first);
    }
    if (with_events) {
      let_wait(nullptr, first);
    }
    launch(job.update[0], nullptr);
    if (with_events) {
      let_wait(last, nullptr);
    }
    for (int kernel = 5; kernel < 9; ++kernel) {
      launch(job.backward[static_cast<size_t>(kernel)], last);
    }
    for (const cudaStream_t stream : {first, last, cudaStream_t{nullptr}}) {
      CUDA_CHECK(cudaStreamSynchronize(stream));
    }
  }
}

// What the host does between two steps.
int64_t lose(int us) {
  const int64_t begin = now_ns();
  usleep(static_cast<useconds_t>(us));
  return now_ns() - begin;
}

// The value of the loss is read in each step, and the host does something before the next one.
void reads_the_loss(Job& job, int steps, int us) {
  for (int i = 0; i < steps; ++i) {
    job.step(false);
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    job.synchronise();
    if (us != 0) {
      lose(us);
    }
  }
}

void copies(Job& job, int steps, const char* batch, int us) {
  for (int i = 0; i < steps; ++i) {
    job.step(false);
    CUDA_CHECK(cudaMemcpyAsync(job.batch, batch, kCopyBytes, cudaMemcpyHostToDevice, job.stream));
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    if (us != 0) {
      lose(us);
    }
  }
}

// After each sixth step but the last some rank, or each (-1), fetches what it saves, and the GPU
// has nothing to do meanwhile.
void saves(Job& job, int steps, int rank, int us) {
  constexpr int kSteps = 6;
  std::vector<char> state(kCopyBytes);
  for (int i = 0; i < steps; ++i) {
    job.step(world_size() > 1);
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    const bool is_due = (i + 1) % kSteps == 0 && i + 1 < steps;
    if (is_due && (rank < 0 || rank == world_rank())) {
      CUDA_CHECK(
          cudaMemcpyAsync(state.data(), job.batch, kCopyBytes, cudaMemcpyDeviceToHost, job.stream));
      job.synchronise();
      lose(us);
    }
  }
}

// Once, in the middle of the loop.
void pauses(Job& job, int steps, int us) {
  for (int i = 0; i < steps; ++i) {
    job.step(false);
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    if (i == steps / 2) {
      job.synchronise();
      lose(us);
    }
  }
}

void communicates(Job& job, int steps) {
  for (int i = 0; i < steps; ++i) {
    job.step(true);
  }
}

// The same, and the host is never more than two steps ahead of its GPU.
void communicates_two_ahead(Job& job, int steps) {
  std::array<cudaEvent_t, 2> done{};
  for (cudaEvent_t& event : done) {
    CUDA_CHECK(cudaEventCreate(&event));
  }
  for (int i = 0; i < steps; ++i) {
    cudaEvent_t& before = done[static_cast<size_t>(i) % done.size()];
    if (i >= 2) {
      CUDA_CHECK(cudaEventSynchronize(before));
    }
    job.step(true);
    CUDA_CHECK(cudaEventRecord(before, job.stream));
  }
}

// Rank 1 does more than the others before each step, or before one of them.
void comes_late(Job& job, int steps, int which) {
  int64_t late = 0;
  for (int i = 0; i < steps; ++i) {
    if (world_rank() == 1 && (which < 0 || which == i)) {
      const int64_t lost = lose(kLostUs);
      late += i > 0 ? lost : 0;
    }
    job.step(true);
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    job.synchronise();
  }
  say("late_ns", late);
  say("waited_ns", late);
}

// As comes_late, but each step has launched something before: whether the GPU is through with it
// when rank 1 goes on, calls alone do not say.
void comes_late_behind_work(Job& job, int steps) {
  for (int i = 0; i < steps; ++i) {
    job.launch(job.forward);
    if (world_rank() == 1) {
      lose(kLostUs);
    }
    job.step(true);
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    job.synchronise();
  }
}

// Before its first collective, for which NCCL connects the ranks: the others wait on their hosts.
void connects_late(Job& job, int steps) {
  if (world_rank() == 1) {
    lose(10 * kLostUs);
  }
  communicates(job, steps);
}

// Each step stops one rank after the other in turn, of the first `of`.
void stops_in_turn(Job& job, int steps, int every, int of) {
  int64_t late = 0;
  for (int i = 0; i < steps; ++i) {
    if (i > 0 && i % every == 0 && i / every % of == world_rank()) {
      late += lose(kLostUs);
    }
    job.step_with(1, 64);
    job.synchronise();
  }
  say("+late_ns", late);
}

// `us` of the host's own between two launches, and nothing to wait for.
void launches_slowly(Job& job, int count, int us) {
  int64_t slow = 0;
  int64_t in_launches = 0;
  for (int i = 0; i < count; ++i) {
    const int64_t begin = now_ns();
    while (now_ns() < begin + int64_t{1000} * us) {
    }
    const int64_t launches = now_ns();
    job.launch(job.backward[static_cast<size_t>(i) % job.backward.size()]);
    in_launches += now_ns() - launches;
    slow += i > 0 ? now_ns() - begin : 0;
  }
  say("idle_ns", slow);
  say("extra_ns", in_launches);
}

// More at once than a queue holds.
void fills_the_queue(Job& job, int count) {
  int64_t blocked = 0;
  for (int i = 0; i < count; ++i) {
    const int64_t begin = now_ns();
    job.launch(job.backward[static_cast<size_t>(i) % job.backward.size()]);
    const int64_t took = now_ns() - begin;
    blocked += took > 100'000 ? took : 0;
  }
  say("blocked_ns", blocked);
}

// The same as PyTorch's item(): a copy of the value, which waits for the GPU where the host's
// memory is pageable, and a call that waits, in each so-manieth step; 0: never.
void reads_values(Job& job, int steps, void* value, int every, int us) {
  for (int i = 0; i < steps; ++i) {
    job.step(world_size() > 1);
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    CUDA_CHECK(cudaMemcpyAsync(value, job.gradients, 4, cudaMemcpyDeviceToHost, job.stream));
    if (every != 0 && i % every == 0) {
      job.synchronise();
    }
    if (us != 0) {
      lose(us);
    }
  }
}

// cudaFree waits for the GPU, and then nothing is queued; what allocating takes, judge.py says.
void allocates(Job& job, int steps, int us) {
  for (int i = 0; i < steps; ++i) {
    void* memory = nullptr;
    CUDA_CHECK(cudaMalloc(&memory, kCopyBytes));
    job.step(false);
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    CUDA_CHECK(cudaFree(memory));
    if (us != 0) {
      lose(us);
    }
  }
}

// With one kernel behind it.
void frees_before_the_update(Job& job, int steps, int us) {
  for (int i = 0; i < steps; ++i) {
    void* memory = nullptr;
    CUDA_CHECK(cudaMalloc(&memory, kCopyBytes));
    CUDA_CHECK(cudaEventRecord(job.begins.next(), job.stream));
    job.launch(job.forward);
    job.launch(job.backward);
    CUDA_CHECK(cudaFree(memory));
    job.launch(job.update);
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    lose(us);
  }
}

void allocates_ahead(Job& job, int steps, int us) {
  for (int i = 0; i < steps; ++i) {
    void* memory = nullptr;
    CUDA_CHECK(cudaMallocAsync(&memory, kCopyBytes, job.stream));
    job.step(false);
    CUDA_CHECK(cudaFreeAsync(memory, job.stream));
    if (us != 0) {
      lose(us);
    }
  }
}

std::atomic<int64_t> g_napped_ns{0};

void nap(void* us) {
  g_napped_ns += lose(static_cast<int>(reinterpret_cast<intptr_t>(us)));
}

void nap_on(cudaStream_t stream, intptr_t us) {
  CUDA_CHECK(cudaLaunchHostFunc(stream, nap, reinterpret_cast<void*>(us)));
}

// A function of the host between the passes, in a graph; 0: none.
void replays(Job& job, int steps, int us) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  CUDA_CHECK(cudaStreamBeginCapture(job.stream, cudaStreamCaptureModeRelaxed));
  job.launch(job.forward);
  if (us != 0) {
    nap_on(job.stream, us);
  }
  job.launch(job.backward);
  CUDA_CHECK(cudaStreamEndCapture(job.stream, &graph));
  CUDA_CHECK(cudaGraphInstantiate(&replay, graph, 0));
  for (int i = 0; i < steps; ++i) {
    CUDA_CHECK(cudaGraphLaunch(replay, job.stream));
  }
  job.synchronise();
  say("idle_ns", g_napped_ns);
}

// All is launched ahead, and a function of the host holds the stream up between two steps.
void is_held_up(Job& job, int steps, int us) {
  for (int i = 0; i < steps; ++i) {
    job.step(false);
    CUDA_CHECK(cudaEventRecord(job.ends.next(), job.stream));
    if (us != 0) {
      nap_on(job.stream, us);
    }
  }
}

// More blocks for each kernel of the backward pass from `from` until `until`.
void becomes_slower(Job& job, int steps, int from, int until) {
  for (int i = 0; i < steps; ++i) {
    job.step(false, i >= from && i < until ? 2 : 1);
  }
}

void waits_in_each_step(Job& job, int steps) {
  int64_t blocked = 0;
  for (int i = 0; i < steps; ++i) {
    job.step(false);
    const int64_t begin = now_ns();
    job.synchronise();
    blocked += now_ns() - begin;
  }
  say("blocked_ns", blocked);
}

using Case = std::function<void(Job&, int)>;  // steps

std::map<std::string, Case> cases() {
  static const std::vector<char> pageable(kCopyBytes);
  static std::vector<char> read(64);
  void* pinned = nullptr;
  CUDA_CHECK(cudaMallocHost(&pinned, kCopyBytes));
  const char* const batch = static_cast<char*>(pinned);
  const auto reduces = [](int times, size_t elements) {
    return [=](Job& job, int steps) {
      for (int i = 0; i < steps; ++i) {
        job.step_with(times, elements);
      }
    };
  };
  const auto computes = [](const Products& products) {
    return [=](Job& job, int steps) {
      CHECK(multiplies(job, steps, products), "built without cuBLAS");
    };
  };
  return {
      {"floats", computes({4096, 1024, 2048})},
      {"floats-by-lt", computes({.m = 4096, .n = 1024, .k = 2048, .by_lt = true})},
      {"floats-by-tensor-cores", computes({.m = 4096, .n = 1024, .k = 2048, .tf32 = true})},
      {"halves", computes({.m = 4096, .n = 1024, .k = 2048, .half = true})},
      {"few-floats", computes({.m = 4096, .n = 1024, .k = 2048, .of_each_step = 1})},
      {"floats-from-memory", computes({1, 24576, 24576})},
      {"sync", [](Job& job, int steps) { reads_the_loss(job, steps, kLostUs); }},
      {"sync-alone", waits_in_each_step},
      {"no-sync", [=](Job& job, int steps) { copies(job, steps, batch, kLostUs / 2); }},
      {"pageable", [](Job& job, int steps) { copies(job, steps, pageable.data(), kLostUs); }},
      {"pageable-alone", [](Job& job, int steps) { copies(job, steps, pageable.data(), 0); }},
      {"saves", [](Job& job, int steps) { saves(job, steps, -1, 3 * kLostUs); }},
      {"saves-quickly", [](Job& job, int steps) { saves(job, steps, -1, kLostUs); }},
      {"one-saves", [](Job& job, int steps) { saves(job, steps, 0, 6 * kLostUs); }},
      {"pauses", [](Job& job, int steps) { pauses(job, steps, 30 * kLostUs); }},
      {"pauses-never", [](Job& job, int steps) { pauses(job, steps, 0); }},
      {"pauses-shortly", [](Job& job, int steps) { pauses(job, steps, 3 * kLostUs); }},
      {"communication", communicates},
      {"communication-two-ahead", communicates_two_ahead},
      {"small", reduces(30, 64)},
      {"few-small", reduces(10, 64)},
      {"bucketed", reduces(1, 64)},
      {"legacy", [](Job& job, int steps) { on_three_streams(job, steps, 0, false); }},
      {"legacy-ignored",
       [](Job& job, int steps) { on_three_streams(job, steps, cudaStreamNonBlocking, false); }},
      {"legacy-and-events", [](Job& job, int steps) { on_three_streams(job, steps, 0, true); }},
      {"late", [](Job& job, int steps) { comes_late(job, steps, -1); }},
      {"late-once", [](Job& job, int steps) { comes_late(job, steps, steps / 2); }},
      {"late-at-first", [](Job& job, int steps) { comes_late(job, steps, 0); }},
      {"late-behind-work", comes_late_behind_work},
      {"late-to-connect", connects_late},
      {"in-time", [](Job& job, int steps) { comes_late(job, steps, steps); }},
      {"in-turn", [](Job& job, int steps) { stops_in_turn(job, steps, 3, world_size()); }},
      {"in-turn-seldom", [](Job& job, int steps) { stops_in_turn(job, steps, 10, world_size()); }},
      {"two-in-turn", [](Job& job, int steps) { stops_in_turn(job, steps, 3, 2); }},
      {"in-turn-never",
       [](Job& job, int steps) { stops_in_turn(job, steps, steps, world_size()); }},
      {"slow-host", [](Job& job, int steps) { launches_slowly(job, 10 * steps, 400); }},
      {"quick-host", [](Job& job, int steps) { launches_slowly(job, 10 * steps, 10); }},
      {"queue", [](Job& job, int steps) { fills_the_queue(job, 50 * steps); }},
      {"item", [](Job& job, int steps) { reads_values(job, steps, read.data(), 1, kLostUs); }},
      {"item-ahead", [](Job& job, int steps) { reads_values(job, steps, read.data(), 1, 0); }},
      {"item-seldom",
       [](Job& job, int steps) { reads_values(job, steps, read.data(), steps / 2, 0); }},
      {"item-pinned", [=](Job& job, int steps) { reads_values(job, steps, pinned, 1, kLostUs); }},
      {"copies-back",
       [](Job& job, int steps) { reads_values(job, steps, read.data(), 0, kLostUs); }},
      {"copies-back-pinned",
       [=](Job& job, int steps) { reads_values(job, steps, pinned, 0, kLostUs); }},
      {"two-items", [](Job& job, int steps) { reads_two_values(job, steps, read.data(), 1, 0); }},
      {"two-items-loader",
       [](Job& job, int steps) { reads_two_values(job, steps, read.data(), 1, 2 * kLostUs); }},
      {"two-items-second-loader",
       [](Job& job, int steps) { reads_two_values(job, steps, read.data(), 2, 2 * kLostUs); }},
      {"two-items-quick-loader",
       [](Job& job, int steps) { reads_two_values(job, steps, read.data(), 1, kLostUs / 10); }},
      {"prepares",
       [](Job& job, int steps) { prepares(job, steps, read.data(), steps, 5 * kLostUs / 2); }},
      {"prepares-and-reads-seldom",
       [](Job& job, int steps) { prepares(job, steps, read.data(), 10, 5 * kLostUs / 2); }},
      {"prepares-in-time",
       [](Job& job, int steps) { prepares(job, steps, read.data(), 10, kLostUs / 2); }},
      {"prepares-other-work",
       [](Job& job, int steps) { prepares_other_work(job, steps, 5 * kLostUs / 2); }},
      {"items-and-pauses",
       [](Job& job, int steps) { reads_and_pauses(job, steps, read.data(), 6 * kLostUs); }},
      {"items-and-pauses-shortly",
       [](Job& job, int steps) { reads_and_pauses(job, steps, read.data(), kLostUs / 3); }},
      {"items-of-batches",
       [](Job& job, int steps) { reads_after_each_batch(job, steps, read.data(), 4, 3000); }},
      {"items-of-batches-quick",
       [](Job& job, int steps) { reads_after_each_batch(job, steps, read.data(), 4, 0); }},
      {"new-code", [](Job& job, int steps) { uses_new_code(job, steps, read.data()); }},
      {"allocates", [](Job& job, int steps) { allocates(job, steps, 0); }},
      {"frees", [](Job& job, int steps) { allocates(job, steps, kLostUs / 2); }},
      {"frees-shortly", [](Job& job, int steps) { allocates(job, steps, 300); }},
      {"frees-before-update",
       [](Job& job, int steps) { frees_before_the_update(job, steps, kLostUs / 2); }},
      {"allocates-ahead", [](Job& job, int steps) { allocates_ahead(job, steps, 0); }},
      {"frees-ahead", [](Job& job, int steps) { allocates_ahead(job, steps, kLostUs / 2); }},
      {"graph", [](Job& job, int steps) { replays(job, steps, 2000); }},
      {"graph-short", [](Job& job, int steps) { replays(job, steps, 100); }},
      {"graph-whole", [](Job& job, int steps) { replays(job, steps, 0); }},
      {"held-up", [](Job& job, int steps) { is_held_up(job, steps, 5000); }},
      {"held-up-never", [](Job& job, int steps) { is_held_up(job, steps, 0); }},
      {"held-up-short", [](Job& job, int steps) { is_held_up(job, steps, 200); }},
      {"slower", [](Job& job, int steps) { becomes_slower(job, steps, steps / 2, steps); }},
      {"all-forward", [](Job& job, int steps) { pipeline(job, steps, 4, true); }},
      {"one-by-one", [](Job& job, int steps) { pipeline(job, steps, 4, false); }},
      {"all-to-all", all_to_all},
      {"ring", ring},
      {"awaits-copies", awaits_copies},
      {"awaits-collectives", [](Job& job, int steps) { awaits_collectives(job, steps, 0); }},
      {"awaits-a-late-rank", [](Job& job, int steps) { awaits_collectives(job, steps, kLostUs); }},
      {"slower-for-some", [](Job& job, int steps) { becomes_slower(job, steps, 10, 15); }},
  };
}

std::map<std::string, Case> all_cases() {
  std::map<std::string, Case> all = cases();
  all.merge(everyday_cases());
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) {
    for (const auto& [name, run] : all_cases()) {
      puts(name.c_str());
    }
    return 0;
  }
  CHECK(argc == 3, "latency CASE STEPS");
  const int steps = atoi(argv[2]);
  select_device();
  CUDA_CHECK(cudaFree(nullptr));
  Job job(steps);
  if (world_size() > 1) {
    meet("ready");
  }
  const std::map<std::string, Case> all = all_cases();
  const auto found = all.find(argv[1]);
  CHECK(found != all.end(), "do not know %s", argv[1]);
  const int64_t delayed_before = delayed_ns();
  found->second(job, steps);
  say("delayed_ns", delayed_ns() - delayed_before);
  // Later than the last look at what is complete.
  usleep(150'000);
  CUDA_CHECK(cudaDeviceSynchronize());
  say("idle_ns", job.begins.since(job.ends, 1));
  // The update waits for it.
  const int64_t exposed = job.reduced.since(job.backward_ends, 0);
  say("exposed_ns", exposed);
  say("blocking_ns", exposed);
  if (getenv("WORKS_TO_THE_END") != nullptr) {
    job.launch(job.forward);
    job.synchronise();
  }
  return 0;
}
