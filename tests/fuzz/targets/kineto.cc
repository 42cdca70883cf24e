// A trace of PyTorch's profiler: read, its time divided, and judged as that of two ranks.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/detectors/lost_time/latency.h"
#include "analyzer/importers/kineto/kineto.h"
#include "analyzer/reporters/tables/report_table.h"
#include "analyzer/timeline/idle.h"
#include "analyzer/timeline/partition.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace traintrace;
  static const int descriptor = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  if (ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size)) {
    return 0;
  }
  const KinetoTrace trace = read_kineto(path);
  if (!trace.errors.empty() && trace.errors.front().message.empty()) {
    __builtin_trap();
  }
  std::map<int, std::vector<GpuWork>> by_device;
  for (const GpuWork& work : trace.timeline.work) {
    by_device[work.device].push_back(work);
  }
  for (const auto& [device, work] : by_device) {
    int64_t idle = 0;
    for (const int64_t part : idle_by_cause(trace.timeline, work)) {
      idle += part;
    }
    if (idle != partition_of(work).idle_ns) {
      __builtin_trap();
    }
  }
  if (trace.timeline.work.empty()) {
    return 0;
  }
  std::vector<Timeline> timelines(2, trace.timeline);
  timelines[1].rank = trace.timeline.rank ? *trace.timeline.rank + 1 : 1;
  timelines[1].source = "other";
  timelines[1].base_ns += 1000;
  report_by_step(timelines);
  if (find_in_profile(build_profile(std::move(timelines))).empty()) {
    __builtin_trap();
  }
  return 0;
}
