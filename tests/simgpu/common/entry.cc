#include "common/entry.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace simgpu {
namespace {

struct Failure {
  std::string function;
  uint64_t nth = 1;
  bool and_later = false;
  int code = 0;
  bool async = false;
};

struct Cost {
  std::string function;
  int64_t ns = 0;
  bool before = false;
};

struct Settings {
  bool verbose = false;
  std::vector<Cost> costs;
  std::vector<Failure> failures;
};

thread_local int t_async_failure = 0;

// "cudaMalloc@3+=2:async" -> Failure.  A part that does not parse is reported and left out.
bool parse_failure(const std::string& part, Failure& out) {
  const size_t at = part.find('@');
  const size_t equals = part.find('=');
  if (at == std::string::npos || equals == std::string::npos || equals < at) {
    return false;
  }
  out.function = part.substr(0, at);
  char* end = nullptr;
  out.nth = strtoull(part.c_str() + at + 1, &end, 10);
  out.and_later = *end == '+';
  out.code = static_cast<int>(strtol(part.c_str() + equals + 1, &end, 10));
  out.async = strcmp(end, ":async") == 0;
  return out.nth > 0 && out.code != 0 && (*end == '\0' || out.async);
}

// "cudaMalloc=300", "cuLaunchKernel=300:before" -> Cost
bool parse_cost(const std::string& part, Cost& out) {
  const size_t equals = part.find('=');
  if (equals == std::string::npos) {
    return false;
  }
  out.function = part.substr(0, equals);
  char* end = nullptr;
  out.ns = strtoll(part.c_str() + equals + 1, &end, 10) * 1000;
  out.before = strcmp(end, ":before") == 0;
  return out.ns > 0 && (*end == '\0' || out.before);
}

std::vector<std::string> parts_of(const char* text) {
  std::vector<std::string> parts;
  std::string_view rest = text ? text : "";
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    parts.emplace_back(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  return parts;
}

Settings read_settings() {
  Settings settings;
  const char* verbose = getenv("SIMGPU_VERBOSE");
  settings.verbose = verbose && strcmp(verbose, "0") != 0 && *verbose;
  for (const std::string& part : parts_of(getenv("SIMGPU_CALL_US"))) {
    if (Cost cost; parse_cost(part, cost)) {
      settings.costs.push_back(cost);
    } else {
      fprintf(stderr, "simgpu: SIMGPU_CALL_US: '%s' is not FUNCTION=US\n", part.c_str());
    }
  }
  for (const std::string& part : parts_of(getenv("SIMGPU_FAIL"))) {
    if (Failure failure; parse_failure(part, failure)) {
      settings.failures.push_back(failure);
    } else {
      fprintf(stderr, "simgpu: SIMGPU_FAIL: '%s' is not FUNCTION@N=CODE[:async]\n", part.c_str());
    }
  }
  return settings;
}

// The work that this call is about to enqueue is enqueued by the driver, in its own copy of this
// file.
void fail_next_work(int code) {
  using Fail = void(int);
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void* call = driver ? dlsym(driver, "simgpuFailNextWork") : nullptr;
  if (call) {
    reinterpret_cast<Fail*>(call)(code);
  } else {
    t_async_failure = code;
  }
}

// Never destroyed: calls may come from other threads while the process exits.
const Settings& settings() {
  static const Settings& value = *new Settings(read_settings());
  return value;
}

// "cuMemAlloc_v2" and "cuMemcpyAsync_ptsz" are also called by their names without suffix.
bool same_function(const std::string& asked, const char* name) {
  const size_t length = asked.size();
  if (strncmp(asked.c_str(), name, length) != 0) {
    return false;
  }
  return name[length] == '\0' || strncmp(name + length, "_v", 2) == 0 ||
         strncmp(name + length, "_pt", 3) == 0;
}

}  // namespace

std::atomic<bool> g_watched{!settings().failures.empty() || !settings().costs.empty() ||
                            settings().verbose};

namespace {
std::atomic<CallObserver*> g_observer{nullptr};
}  // namespace

void observe_calls(CallObserver* observer) {
  g_observer.store(observer);
  g_watched.store(true);
}

namespace {

// It takes a processor meanwhile, and so does not wake up late.
void take_time(const char* function, bool before) {
  for (const Cost& cost : settings().costs) {
    if (cost.before == before && same_function(cost.function, function)) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(cost.ns);
      while (std::chrono::steady_clock::now() < end) {
      }
      return;
    }
  }
}

}  // namespace

int Entry::enter_watched() {
  const uint64_t nth = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (settings().verbose) {
    fprintf(stderr, "simgpu: %s\n", name_);
  }
  if (CallObserver* const observer = g_observer.load()) {
    observer(name_);
  }
  for (const Failure& failure : settings().failures) {
    const bool now = failure.and_later ? nth >= failure.nth : nth == failure.nth;
    if (!now || !same_function(failure.function, name_)) {
      continue;
    }
    if (!failure.async) {
      return failure.code;
    }
    fail_next_work(failure.code);
  }
  take_time(name_, true);
  return 0;
}

void Entry::leave_watched() const {
  take_time(name_, false);
}

void set_async_failure(int code) {
  t_async_failure = code;
}

int take_async_failure() {
  const int code = t_async_failure;
  t_async_failure = 0;
  return code;
}

extern "C" int simgpu_unsupported(const char* function, int error) {
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& named = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (named.insert(function).second) {
    fprintf(stderr, "simgpu: %s is not supported\n", function);
  }
  return error;
}

bool glob_match(const char* pattern, const char* text) {
  for (; *pattern; ++pattern, ++text) {
    if (*pattern == '*') {
      for (const char* rest = text;; ++rest) {
        if (glob_match(pattern + 1, rest)) {
          return true;
        }
        if (!*rest) {
          return false;
        }
      }
    }
    if (*pattern != *text) {
      return false;
    }
  }
  return !*text;
}

}  // namespace simgpu
