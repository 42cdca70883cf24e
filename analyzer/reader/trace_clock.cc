#include "analyzer/reader/trace_clock.h"

#include <ctime>
#include <limits>

#include "analyzer/reader/this_machine.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace traintrace {
namespace {

constexpr int kShift = 48;
constexpr uint64_t kOne = uint64_t{1} << kShift;
// Anchors closer than this give no rate: reading them takes part of it.
constexpr uint64_t kMinAnchorDistanceNs = 1'000'000;

bool is_plausible(uint64_t ns_per_tick) {
  return ns_per_tick >= kOne / 1000 && ns_per_tick <= kOne * 1000;
}

format::ClockAnchor anchor_of_now() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  format::ClockAnchor anchor{};
  anchor.monotonic_ns =
      static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
#if defined(__x86_64__)
  anchor.ticks = __rdtsc();
#endif
  return anchor;
}

}  // namespace

bool is_this_boot(const format::FileHeader& header) {
  const auto boot = boot_id();
  return boot && (*boot)[0] == header.boot_id[0] && (*boot)[1] == header.boot_id[1];
}

TimeNs booted_at(const format::ClockAnchor& anchor, uint64_t boottime_ns) {
  TimeNs booted = 0;
  const bool fits = !__builtin_sub_overflow(anchor.realtime_ns, boottime_ns, &booted);
  return boottime_ns != 0 && fits ? booted : 0;
}

TraceClock::TraceClock(const format::FileHeader& header, TimeNs booted) {
  const uint32_t newest = header.anchor_index & 1;
  const format::ClockAnchor& last = header.anchors[newest];
  const uint64_t boottime_ns = header.anchor_boottime_ns[1 + newest];
  base_ticks_ = last.ticks;
  base_ns_ =
      static_cast<TimeNs>(std::min<uint64_t>(last.realtime_ns, std::numeric_limits<TimeNs>::max()));
  booted_ = booted_at(last, boottime_ns);
  TimeNs told = 0;
  if (booted != 0 && booted_ != 0 && !__builtin_add_overflow(booted, boottime_ns, &told)) {
    base_ns_ = told;
    booted_ = booted;
  }
  if (header.clock == format::kMonotonicNs) {
    ns_per_tick_ = kOne;
    return;
  }
  set_rate(header.first_anchor, last);
  if (ns_per_tick_ == 0 && is_this_boot(header)) {
    set_rate(last, anchor_of_now());
  }
  rate_known_ = ns_per_tick_ != 0;
  if (!rate_known_) {
    ns_per_tick_ = kOne;
  }
}

void TraceClock::set_rate(const format::ClockAnchor& from, const format::ClockAnchor& to) {
  if (to.ticks <= from.ticks || to.monotonic_ns <= from.monotonic_ns ||
      to.monotonic_ns - from.monotonic_ns < kMinAnchorDistanceNs) {
    return;
  }
  const unsigned __int128 scaled =
      static_cast<unsigned __int128>(to.monotonic_ns - from.monotonic_ns) << kShift;
  const auto rate = static_cast<uint64_t>(scaled / (to.ticks - from.ticks));
  ns_per_tick_ = is_plausible(rate) ? rate : 0;
}

void TraceClock::move_by(TimeNs by) {
  TimeNs moved = 0;
  base_ns_ = __builtin_add_overflow(base_ns_, by, &moved) ? base_ns_ : moved;
  booted_ = booted_ == 0 || __builtin_add_overflow(booted_, by, &moved) ? booted_ : moved;
}

TimeNs TraceClock::ns(uint64_t ticks) const {
  if (ticks == 0) {
    return 0;
  }
  // A difference below 2^64 times a rate below 2^58 fits 128 bits.
  const __int128 distance = static_cast<__int128>(ticks) - base_ticks_;
  const __int128 ns = base_ns_ + ((distance * ns_per_tick_ + kOne / 2) >> kShift);
  if (ns < 1) {
    return 1;
  }
  constexpr TimeNs kLast = std::numeric_limits<TimeNs>::max();
  return ns > kLast ? kLast : static_cast<TimeNs>(ns);
}

}  // namespace traintrace
