#include "nccl/debug.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace simgpu::nccl {
namespace {

constexpr size_t kLineBytes = 1024;

DebugLevel read_level() {
  const char* text = getenv("NCCL_DEBUG");
  if (!text) {
    return DebugLevel::kNone;
  }
  if (strcasecmp(text, "VERSION") == 0) {
    return DebugLevel::kVersion;
  }
  if (strcasecmp(text, "WARN") == 0) {
    return DebugLevel::kWarn;
  }
  const bool talkative = strcasecmp(text, "INFO") == 0 || strcasecmp(text, "TRACE") == 0 ||
                         strcasecmp(text, "ABORT") == 0;
  return talkative ? DebugLevel::kInfo : DebugLevel::kNone;
}

std::atomic<DebugLevel>& level() {
  static std::atomic<DebugLevel>& value = *new std::atomic<DebugLevel>(read_level());
  return value;
}

struct LastError {
  std::mutex mutex;
  std::string text;
};

LastError& stored_error() {
  static LastError& value = *new LastError;
  return value;
}

void print(const char* kind, const char* text) {
  char host[64] = "";
  gethostname(host, sizeof host - 1);
  int device = -1;
  cudaGetDevice(&device);
  printf("%s:%d:%ld [%d] NCCL %s %s\n", host, getpid(), syscall(SYS_gettid), device, kind, text);
  fflush(stdout);
}

}  // namespace

DebugLevel debug_level() {
  return level().load(std::memory_order_relaxed);
}

void reload_debug_level() {
  level().store(read_level());
}

void warn(const char* format, ...) {
  char text[kLineBytes];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  {
    const std::lock_guard lock(stored_error().mutex);
    stored_error().text = text;
  }
  if (debug_level() >= DebugLevel::kWarn) {
    print("WARN", text);
  }
}

void info(const char* format, ...) {
  if (debug_level() < DebugLevel::kInfo) {
    return;
  }
  char text[kLineBytes];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  print("INFO", text);
}

void print_version_once() {
  static std::once_flag& once = *new std::once_flag;
  std::call_once(once, [] {
    if (debug_level() >= DebugLevel::kVersion) {
      printf("NCCL version %d.%d.%d+simgpu\n", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
      fflush(stdout);
    }
  });
}

const char* last_error() {
  thread_local char text[kLineBytes];
  const std::lock_guard lock(stored_error().mutex);
  snprintf(text, sizeof text, "%s", stored_error().text.c_str());
  return text;
}

}  // namespace simgpu::nccl
