// CUPTI's clock beside ours.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// From CUPTI's time to ns since the epoch: a line through the first and the last pair, since both
// clocks are steady, and one of them may be a little faster.
class GpuClock {
 public:
  void add(int64_t theirs, TimeNs ours) {
    if (pairs_++ == 0) {
      first_ = {theirs, ours};
    }
    last_ = {theirs, ours};
  }
  bool is_known() const { return pairs_ != 0; }
  TimeNs ours(int64_t theirs) const {
    const auto since = static_cast<__int128>(theirs) - first_.theirs;
    const auto length = static_cast<__int128>(last_.theirs) - first_.theirs;
    const auto own = static_cast<__int128>(last_.ours) - first_.ours;
    // Over less than a second the rate is worse known than assumed.
    constexpr int64_t kLongEnoughNs = 1'000'000'000;
    const __int128 shift = length < kLongEnoughNs ? since : since * own / length;
    return static_cast<TimeNs>(std::clamp<__int128>(first_.ours + shift, 0, kLatest));
  }

 private:
  static constexpr __int128 kLatest = int64_t{1} << 62;
  struct Pair {
    int64_t theirs = 0;
    TimeNs ours = 0;
  };
  Pair first_, last_;
  size_t pairs_ = 0;
};

}  // namespace traintrace
