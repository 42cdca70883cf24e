#include "interpose/gpu/device_processes.h"

#include <time.h>

#include <cerrno>
#include <cstdint>

#include "interpose/base/files.h"
#include "interpose/calls/open_call.h"
#include "interpose/life/facts.h"
#include "interpose/record/clock.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

// nvmlProcessInfo_v1_t, which the name without a number takes.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used;  // all ones: not told
};

using Ask = int (*)(void* device, unsigned* count, ProcessInfo* processes);

constexpr unsigned kMostProcesses = 24;  // whose text fits
// A program that survives many failures asks each time, and facts are kept for good.
constexpr uint32_t kMostAnswers = 64;

constinit void* g_real = nullptr;
constinit uint32_t g_answers = 0;

void note(ThreadState& thread, const ProcessInfo* processes, unsigned count) {
  WordText key;
  key << "gpu-";
  if (thread.device != format::kNoDevice) {
    key << int64_t{thread.device} << "-";
  }
  key << "processes";
  ShortText value;
  value << static_cast<int64_t>(nanoseconds(CLOCK_REALTIME));
  for (unsigned i = 0; i < count && i < kMostProcesses; ++i) {
    const auto used = static_cast<int64_t>(processes[i].used);
    value << " " << int64_t{processes[i].pid} << ":" << (used < 0 ? int64_t{0} : used);
  }
  write_fact(thread, key.c_str(), value.c_str());
}

int ask_and_note(void* device, unsigned* count, ProcessInfo* processes) {
  const int result = reinterpret_cast<Ask>(load(g_real))(device, count, processes);
  const int saved_errno = errno;
  ThreadState* const thread =
      result == 0 && count != nullptr && processes != nullptr ? thread_to_record(false) : nullptr;
  InsideMark mark;
  if (thread != nullptr && fetch_add(g_answers, 1U) < kMostAnswers &&
      enter_tracer_if_free(*thread, mark)) {
    note(*thread, processes, *count);
    leave_tracer(*thread);
  }
  errno = saved_errno;
  return result;
}

}  // namespace

bool asks_for_processes(const char* function) noexcept {
  return equal(function, "nvmlDeviceGetComputeRunningProcesses");
}

void* listens_to_processes(void* real) noexcept {
  void* known = load(g_real);
  if (known == nullptr && exchange_if(g_real, known, real)) {
    known = real;
  }
  known = known == nullptr ? load(g_real) : known;
  // Of another copy of NVML nothing is heard.
  return known == real ? reinterpret_cast<void*>(&ask_and_note) : real;
}

void device_processes_start() noexcept {
  publish(g_answers, 0U);
}

}  // namespace traintrace
