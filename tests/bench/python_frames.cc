// What it costs to read Python frames, and to tell their code objects apart.  On an interpreter
// made of a few bytes, so the memory is as warm as it gets.
#include <benchmark/benchmark.h>

#include <string>

#include "interpose/python/python_frames.h"
#include "tests/unit/python/fake_interpreter.h"

namespace traintrace {
namespace {

constexpr int kDepth = 40;

void install_interpreter() {
  static bool installed = false;
  if (installed) {
    return;
  }
  installed = true;
  auto& python = *new test::Interpreter;  // goes with the process
  for (int i = 0; i < kDepth; ++i) {
    python.call(python.code("function_" + std::to_string(i)), 20);
  }
  python.install();
  find_python();
}

void frames(benchmark::State& state) {
  install_interpreter();
  PythonFrame out[kDepth];
  for (auto _ : state) {
    benchmark::DoNotOptimize(python_frames(out, static_cast<size_t>(state.range(0))));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(frames)->Arg(1)->Arg(10)->Arg(20);

void frames_and_keys(benchmark::State& state) {
  install_interpreter();
  PythonFrame out[kDepth];
  for (auto _ : state) {
    const size_t count = python_frames(out, static_cast<size_t>(state.range(0)));
    for (size_t i = 0; i < count; ++i) {
      benchmark::DoNotOptimize(python_code_key(out[i].code));
    }
  }
}
BENCHMARK(frames_and_keys)->Arg(1)->Arg(10)->Arg(20);

void describe(benchmark::State& state) {
  install_interpreter();
  PythonFrame frame;
  PythonCode code;
  if (python_frames(&frame, 1) == 0) {
    state.SkipWithError("no frames");
    return;
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(describe_python_code(frame.code, code));
  }
}
BENCHMARK(describe);

}  // namespace
}  // namespace traintrace

BENCHMARK_MAIN();
