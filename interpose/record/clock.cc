#include "interpose/record/clock.h"

#include "interpose/base/files.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace traintrace {

constinit bool g_use_tsc = false;

namespace {

bool tsc_is_usable() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kInvariantTsc = 1u << 8;
  if (!__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) || !(edx & kInvariantTsc)) {
    return false;
  }
  // The kernel falls back to these where it found counters that run apart.
  char source[32];
  read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
            sizeof source);
  return !starts_with(source, "hpet") && !starts_with(source, "acpi_pm") &&
         !starts_with(source, "jiffies");
#else
  return false;
#endif
}

}  // namespace

format::ClockKind choose_clock() noexcept {
  g_use_tsc = tsc_is_usable();
  return g_use_tsc ? format::kTsc : format::kMonotonicNs;
}

format::ClockAnchor clock_anchor(uint64_t& boottime_ns) noexcept {
  format::ClockAnchor best = {};
  uint64_t best_span = UINT64_MAX;
  for (int i = 0; i < 5; ++i) {
    const uint64_t before = clock_ticks();
    const uint64_t monotonic_ns = nanoseconds(CLOCK_MONOTONIC);
    const uint64_t realtime_ns = nanoseconds(CLOCK_REALTIME);
    const uint64_t since_boot_ns = nanoseconds(CLOCK_BOOTTIME);
    const uint64_t after = clock_ticks();
    if (after - before < best_span) {
      best_span = after - before;
      boottime_ns = since_boot_ns;
      best = {before + best_span / 2, monotonic_ns, realtime_ns};
    }
  }
  return best;
}

}  // namespace traintrace
