// What it costs to take a native stack of 20 known frames, beside glibc's backtrace() and
// libunwind.
//
//   known        the same stack again and again, every rule in the cache
//   remembered   the same with what a thread remembers of its last walks
//   new_code     rules looked up in unwind tables, as the first time
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <execinfo.h>

#include "interpose/stacks/modules.h"
#include "interpose/stacks/native_frames.h"
#include "interpose/stacks/unwind_cfi.h"

namespace {

constexpr size_t kFrames = 20;
using Body = void (*)(benchmark::State&);
volatile int g_sink;

// Frames of several sizes; one in two keeps its frame in rbp.
template <int kDepth>
int below(Body body, benchmark::State& state);

template <int kDepth>
__attribute__((noinline)) int without_frame_pointer(Body body, benchmark::State& state) {
  volatile char buffer[16 * (kDepth % 5) + 8];
  buffer[0] = 1;
  return below<kDepth>(body, state) + buffer[0] + g_sink;
}

template <int kDepth>
__attribute__((noinline)) int with_frame_pointer(Body body, benchmark::State& state) {
  auto* buffer = static_cast<volatile char*>(__builtin_alloca(static_cast<size_t>(kDepth) + 8));
  buffer[0] = 1;
  return below<kDepth>(body, state) + buffer[0] + g_sink;
}

template <int kDepth>
int below(Body body, benchmark::State& state) {
  if constexpr (kDepth == 0) {
    body(state);
    return 0;
  } else if constexpr (kDepth % 2 == 0) {
    return with_frame_pointer<kDepth - 1>(body, state);
  } else {
    return without_frame_pointer<kDepth - 1>(body, state);
  }
}

template <Body kBody>
void on_a_stack(benchmark::State& state) {
  below<static_cast<int>(kFrames) + 2>(kBody, state);
}

__attribute__((noinline)) void known(benchmark::State& state) {
  uint64_t frames[kFrames];
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        traintrace::native_frames(traintrace::walk_from_here(), frames, kFrames));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(on_a_stack<known>)->Name("known");

__attribute__((noinline)) void remembered(benchmark::State& state) {
  static traintrace::NativeMemo memo;
  uint64_t frames[kFrames];
  uint64_t hash = 0;
  const traintrace::WalkStart frame = traintrace::walk_from_here();
  traintrace::native_frames(frame, frames, kFrames, memo, hash);
  for (auto _ : state) {
    if (!traintrace::native_hash_known(frame, memo, hash)) {
      state.SkipWithError("not remembered");
    }
    benchmark::DoNotOptimize(hash);
  }
}
BENCHMARK(on_a_stack<remembered>)->Name("remembered");

__attribute__((noinline)) void glibc(benchmark::State& state) {
  void* frames[kFrames];
  for (auto _ : state) {
    benchmark::DoNotOptimize(backtrace(frames, kFrames));
  }
}
BENCHMARK(on_a_stack<glibc>)->Name("glibc backtrace()");

__attribute__((noinline)) void libunwind(benchmark::State& state) {
  void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  void* found = library != nullptr ? dlsym(library, "unw_backtrace") : nullptr;
  if (found == nullptr) {
    state.SkipWithError("libunwind8 is not installed");
    return;
  }
  const auto unw_backtrace = reinterpret_cast<int (*)(void**, int)>(found);
  void* frames[kFrames];
  for (auto _ : state) {
    benchmark::DoNotOptimize(unw_backtrace(frames, kFrames));
  }
}
BENCHMARK(on_a_stack<libunwind>)->Name("libunwind unw_backtrace()");

void new_code(benchmark::State& state) {
  traintrace::refresh_modules();
  const auto code = reinterpret_cast<uint64_t>(&known);
  for (auto _ : state) {
    for (size_t i = 0; i < kFrames; ++i) {
      const auto look_up = [](const traintrace::Module* module, void* context) {
        benchmark::DoNotOptimize(traintrace::rule_of(*module, *static_cast<uint64_t*>(context)));
      };
      uint64_t pc = code + i;
      traintrace::with_module_at(pc, look_up, &pc);
    }
  }
}
BENCHMARK(new_code);

}  // namespace

BENCHMARK_MAIN();
