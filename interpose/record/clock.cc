#include "interpose/record/clock.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

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
  const int saved_errno = errno;  // the job's, where a range is pushed before recording begins
  char source[32];
  read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
            sizeof source);
  errno = saved_errno;
  return !starts_with(source, "hpet") && !starts_with(source, "acpi_pm") &&
         !starts_with(source, "jiffies");
#else
  return false;
#endif
}

// What CLOCK_BOOTTIME is ahead here of the machine's.
constinit int64_t g_boottime_moved_ns = 0;

// Of `boottime SECONDS NANOSECONDS` in time_namespaces(7): nanoseconds count upwards from seconds.
bool read_moved(const char* offsets, int64_t& moved_ns) {
  constexpr char kName[] = "boottime";
  const char* at = strstr(offsets, kName);
  if (!at) {
    return false;
  }
  at += sizeof kName - 1;
  at += strspn(at, " ");
  const bool is_behind = *at == '-';
  const char* end = nullptr;
  const auto seconds = static_cast<int64_t>(parse_number(at + (is_behind ? 1 : 0), &end));
  const auto rest_ns = static_cast<int64_t>(parse_number(end + strspn(end, " "), nullptr));
  moved_ns = (is_behind ? -seconds : seconds) * 1'000'000'000 + rest_ns;
  return true;
}

}  // namespace

format::ClockKind choose_clock() noexcept {
  g_use_tsc = tsc_is_usable();
  return g_use_tsc ? format::kTsc : format::kMonotonicNs;
}

// The file tells of the namespace that children get.  That is not this one after unshare(2) without
// an exec.
bool find_boottime_offset() noexcept {
  g_boottime_moved_ns = 0;
  struct stat own = {};
  struct stat of_children = {};
  if (stat("/proc/self/ns/time", &own) != 0) {
    return errno == ENOENT && stat("/proc/self/ns", &own) == 0;  // a kernel without them
  }
  char offsets[256];
  return stat("/proc/self/ns/time_for_children", &of_children) == 0 &&
         own.st_ino == of_children.st_ino &&
         read_file("/proc/self/timens_offsets", offsets, sizeof offsets) != 0 &&
         read_moved(offsets, g_boottime_moved_ns);
}

uint64_t boottime_ns() noexcept {
  return nanoseconds(CLOCK_BOOTTIME) - static_cast<uint64_t>(g_boottime_moved_ns);
}

format::ClockAnchor clock_anchor(uint64_t& since_boot_ns) noexcept {
  format::ClockAnchor best = {};
  uint64_t best_span = UINT64_MAX;
  for (int i = 0; i < 5; ++i) {
    const uint64_t before = clock_ticks();
    const uint64_t monotonic_ns = nanoseconds(CLOCK_MONOTONIC);
    const uint64_t realtime_ns = nanoseconds(CLOCK_REALTIME);
    const uint64_t read_ns = boottime_ns();
    const uint64_t after = clock_ticks();
    if (after - before < best_span) {
      best_span = after - before;
      since_boot_ns = read_ns;
      best = {before + best_span / 2, monotonic_ns, realtime_ns};
    }
  }
  return best;
}

}  // namespace traintrace
