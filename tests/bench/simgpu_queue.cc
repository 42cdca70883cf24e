// How fast a simulated stream is: the tracer's cost per call must be visible above it.
//
//   drain     1,000,000 empty launches wait behind a blocked stream; time from its release to the
//   last one enqueue   one launch into the blocked stream, as the caller sees it
//
// Run on one core (scripts/bench pins it), so that worker and caller share it.
#include <benchmark/benchmark.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>

const void* empty_kernel_symbol();

namespace {

constexpr int kLaunches = 1000000;
constexpr double kDrainGoalPerSecond = 1e6;
constexpr double kEnqueueGoalNs = 1000;

double g_drain_per_second = 0;
double g_enqueue_runtime_ns = 0;
double g_enqueue_driver_ns = 0;

double now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

void check(bool ok, const char* what) {
  if (!ok) {
    fprintf(stderr, "simgpu_queue: %s failed: %s\n", what, cudaGetErrorString(cudaGetLastError()));
    exit(1);
  }
}

// A stream whose first operation waits until release().
class BlockedStream {
 public:
  BlockedStream() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess, "stream");
    check(cudaLaunchHostFunc(stream_, &BlockedStream::wait, this) == cudaSuccess, "host function");
  }
  ~BlockedStream() {
    release();
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  BlockedStream(const BlockedStream&) = delete;
  BlockedStream& operator=(const BlockedStream&) = delete;

  cudaStream_t get() const { return stream_; }
  void release() {
    released_ = true;
    released_.notify_all();
  }

 private:
  static void wait(void* self) { static_cast<BlockedStream*>(self)->released_.wait(false); }

  cudaStream_t stream_ = nullptr;
  std::atomic<bool> released_{false};
};

cudaError_t launch_runtime(cudaStream_t stream) {
  return cudaLaunchKernel(empty_kernel_symbol(), dim3(1), dim3(1), nullptr, 0, stream);
}

CUresult launch_driver(CUfunction function, cudaStream_t stream) {
  return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
}

void drain(benchmark::State& state) {
  for (auto _ : state) {
    BlockedStream stream;
    for (int i = 0; i < kLaunches; ++i) {
      check(launch_runtime(stream.get()) == cudaSuccess, "cudaLaunchKernel");
    }
    const double begin_ns = now_ns();
    stream.release();
    check(cudaStreamSynchronize(stream.get()) == cudaSuccess, "cudaStreamSynchronize");
    const double took_ns = now_ns() - begin_ns;
    state.SetIterationTime(took_ns / 1e9);
    g_drain_per_second = kLaunches / (took_ns / 1e9);
  }
  state.SetItemsProcessed(state.iterations() * kLaunches);
}

void enqueue_runtime(benchmark::State& state) {
  const BlockedStream stream;
  const double begin_ns = now_ns();
  for (auto _ : state) {
    check(launch_runtime(stream.get()) == cudaSuccess, "cudaLaunchKernel");
  }
  g_enqueue_runtime_ns = (now_ns() - begin_ns) / kLaunches;
}

void enqueue_driver(benchmark::State& state) {
  const BlockedStream stream;
  cudaFunction_t function = nullptr;
  check(cudaGetFuncBySymbol(&function, empty_kernel_symbol()) == cudaSuccess, "function");
  const double begin_ns = now_ns();
  for (auto _ : state) {
    check(launch_driver(function, stream.get()) == CUDA_SUCCESS, "cuLaunchKernel");
  }
  g_enqueue_driver_ns = (now_ns() - begin_ns) / kLaunches;
}

BENCHMARK(drain)->Iterations(1)->Repetitions(3)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(enqueue_runtime)->Iterations(kLaunches)->Repetitions(3)->UseRealTime();
BENCHMARK(enqueue_driver)->Iterations(kLaunches)->Repetitions(3)->UseRealTime();

// simgpu reads its settings once, some of them when it is loaded: they must be there before.
void run_again_with_settings(char** argv) {
  if (!getenv("SIMGPU_QUEUE_DEPTH")) {
    setenv("SIMGPU_QUEUE_DEPTH", "1100000", 1);
    setenv("SIMGPU_KERNEL_US", "0", 1);
    execv("/proc/self/exe", argv);
  }
}

void print_goal(const char* what, double value, const char* relation, double goal, bool met) {
  printf("%-34s %12.0f   goal %s %.0f   %s\n", what, value, relation, goal, met ? "met" : "MISSED");
}

}  // namespace

int main(int argc, char** argv) {
  run_again_with_settings(argv);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  printf("\nlast repetition\n");
  print_goal("drained launches per second", g_drain_per_second, ">=", kDrainGoalPerSecond,
             g_drain_per_second >= kDrainGoalPerSecond);
  print_goal("enqueue, cudaLaunchKernel, ns", g_enqueue_runtime_ns, "<", kEnqueueGoalNs,
             g_enqueue_runtime_ns < kEnqueueGoalNs);
  print_goal("enqueue, cuLaunchKernel, ns", g_enqueue_driver_ns, "<", kEnqueueGoalNs,
             g_enqueue_driver_ns < kEnqueueGoalNs);
  return 0;
}
