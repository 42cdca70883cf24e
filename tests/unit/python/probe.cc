// What the scripts beside this ask of the tracer, as C functions for ctypes.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "analyzer/python_lines.h"
#include "interpose/python/python_frames.h"
#include "interpose/stacks/code_memo.h"

#define PROBE extern "C" __attribute__((visibility("default")))

namespace {

struct Capture {
  traintrace::PythonFrame* out;
  size_t max;
  size_t count;
};

void* capture_here(void* argument) {
  auto* capture = static_cast<Capture*>(argument);
  capture->count = traintrace::python_frames(capture->out, capture->max);
  return nullptr;
}

std::atomic<int> capturing{0};  // threads that do so for ever
std::atomic<int> captures_with_frames{0};

void* look_up(const char* name) {
  return dlsym(RTLD_DEFAULT, name);
}

}  // namespace

PROBE bool probe_find() {
  traintrace::set_python_lookup(look_up);
  return traintrace::find_python();
}

PROBE size_t probe_frames(traintrace::PythonFrame* out, size_t max) {
  return traintrace::python_frames(out, max);
}

// On a thread that Python has never heard of.
PROBE size_t probe_frames_elsewhere(traintrace::PythonFrame* out, size_t max) {
  Capture capture{out, max, 99};
  pthread_t thread;
  pthread_create(&thread, nullptr, capture_here, &capture);
  pthread_join(thread, nullptr);
  return capture.count;
}

PROBE size_t probe_code_size() {
  return sizeof(traintrace::PythonCode);
}

PROBE bool probe_describe(uint64_t code, traintrace::PythonCode* into) {
  return traintrace::describe_python_code(code, *into);
}

// 0 if what is remembered of code at that address is taken for what lies there now.
PROBE uint64_t probe_key(uint64_t code) {
  static traintrace::CodeMemo memo;
  const uint64_t key = traintrace::python_code_key(code);
  const traintrace::PythonFrame twice[] = {{code, 0}, {code, 2}};
  uint64_t keys[2];
  traintrace::python_code_keys(twice, 2, memo, keys);
  return keys[0] == key && keys[1] == key ? key : 0;
}

// -1: no line.
PROBE int probe_line(int minor, int first_line, const uint8_t* table, size_t bytes,
                     int instruction) {
  return traintrace::python_line(minor, first_line, {table, bytes}, instruction).value_or(-1);
}

PROBE int probe_capturing() {
  return capturing;
}

// On a thread that Python meets in the callback.
PROBE int probe_call_elsewhere(int (*callback)(int), int argument) {
  int result = 0;
  std::thread([&] { result = callback(argument); }).join();
  return result;
}

// How many captures on those threads still find frames in the next milliseconds.
PROBE int probe_still_found() {
  const int before = captures_with_frames;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return captures_with_frames - before;
}

PROBE int probe_call(int (*callback)(int), int argument) {
  return callback(argument);
}

// Until the process ends.
PROBE void probe_capture_forever() {
  traintrace::PythonFrame frames[64];
  ++capturing;
  for (;;) {
    captures_with_frames += traintrace::python_frames(frames, 64) > 0 ? 1 : 0;
  }
}

// The process goes on for a while after the interpreter has ended.
PROBE void probe_linger_at_exit() {
  std::atexit([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
}

PROBE double probe_nanoseconds(size_t frames, bool with_keys, int rounds) {
  using Clock = std::chrono::steady_clock;
  traintrace::PythonFrame out[128];
  uint64_t sum = 0;
  const auto begin = Clock::now();
  for (int i = 0; i < rounds; ++i) {
    const size_t count = traintrace::python_frames(out, frames);
    for (size_t f = 0; with_keys && f < count; ++f) {
      sum += traintrace::python_code_key(out[f].code);
    }
    asm volatile("" : : "r"(sum), "m"(out) : "memory");
  }
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / rounds;
}
