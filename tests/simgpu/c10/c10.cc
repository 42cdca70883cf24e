#include <atomic>

#include "profiler.h"

namespace {

std::atomic<uint64_t> g_reports;
std::atomic<int64_t> g_change;

void note(int64_t change) {
  ++g_reports;
  g_change += change;
}

}  // namespace

namespace c10 {

void reportMemoryUsageToProfiler(Device, int64_t change) {
  note(change);
}
void reportMemoryUsageToProfiler(void*, int64_t change, Device) {
  note(change);
}
void reportMemoryUsageToProfiler(void*, int64_t change, int64_t, int64_t, Device) {
  note(change);
}
void reportMemoryUsageToProfiler(void*, int64_t change, size_t, size_t, Device) {
  note(change);
}
void reportOutOfMemoryToProfiler(int64_t, int64_t, int64_t, Device) {
  note(0);
}
void reportOutOfMemoryToProfiler(int64_t, size_t, size_t, Device) {
  note(0);
}
void reportOutOfMemoryToProfiler(size_t, size_t, size_t, Device) {
  note(0);
}

}  // namespace c10

uint64_t c10sim_reports() {
  return g_reports;
}

int64_t c10sim_reported_change() {
  return g_change;
}
