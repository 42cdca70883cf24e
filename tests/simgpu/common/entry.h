// What every exported function of simgpu does first: log itself, and fail if a test asked for it.
//
//   SIMGPU_VERBOSE=1                     every call is named on stderr
//   SIMGPU_FAIL=cudaMalloc@3=2,..        the third call of cudaMalloc in this process returns 2;
//                                        @3+ fails the third and all later ones.  A driver name
//                                        matches with and without its _v2/_ptsz suffix.
//   SIMGPU_FAIL=cuLaunchKernel@5=700:async   the work is enqueued and fails when it runs (only for
//                                        calls that enqueue work; see take_async_failure)
//   SIMGPU_CALL_US=cudaMalloc=300,..     each call of cudaMalloc takes so much longer, once it has
//                                        done what it does (=300:before: before); names as above
//
// All are read once, when the library is loaded; a call costs two loads and branches otherwise.
#pragma once
#include <atomic>
#include <cstdint>

namespace simgpu {

// True when one of them is set, or calls are observed.
extern std::atomic<bool> g_watched;

// From now on, `observer` is told of each call of this library at its beginning.
using CallObserver = void(const char* function);
void observe_calls(CallObserver* observer);

// One per exported function, static storage.  Thread-safe.
class Entry {
 public:
  constexpr explicit Entry(const char* name) : name_(name) {}

  // Returns the error code that the call must return at once, or 0.
  int enter() {
    return __builtin_expect(g_watched.load(std::memory_order_relaxed), 0) ? enter_watched() : 0;
  }

  void leave() const {
    if (__builtin_expect(g_watched.load(std::memory_order_relaxed), 0)) {
      leave_watched();
    }
  }

  const char* name() const { return name_; }

 private:
  int enter_watched();
  void leave_watched() const;

  const char* name_;
  std::atomic<uint64_t> calls_{0};
};

// Of one call.
class Leaving {
 public:
  explicit Leaving(const Entry& entry) : entry_(entry) {}
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;
  ~Leaving() { entry_.leave(); }

 private:
  const Entry& entry_;
};

// The error code that the work enqueued by the current call shall end with, or 0; asking clears it.
int take_async_failure();
// What the driver's exported simgpuFailNextWork(code) does, on behalf of the other libraries.
void set_async_failure(int code);

// Names `function` on stderr, once per function, and returns `error`.  Called by the generated
// stubs.
extern "C" __attribute__((visibility("hidden"))) int simgpu_unsupported(const char* function,
                                                                        int error);

// Compares a function name with a pattern: '*' stands for any run of characters.
bool glob_match(const char* pattern, const char* text);

}  // namespace simgpu

// First statement of an exported function that returns an error code of type `result`.
#define SIMGPU_ENTER(result)                             \
  static constinit simgpu::Entry simgpu_entry{__func__}; \
  const simgpu::Leaving simgpu_leaving(simgpu_entry);    \
  if (const int simgpu_injected = simgpu_entry.enter())  \
  return static_cast<result>(simgpu_injected)
