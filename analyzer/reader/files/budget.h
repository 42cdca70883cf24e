// How much one process, trace, symbol table or archive may cost whoever reads it.  Those who wrote
// it may have made it so that reading never ends: what is left out then is said, and the others are
// read all the same.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <limits>

namespace traintrace {

class Budget {
 public:
  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
  struct Limits {
    uint64_t bytes = kNoLimit;
    uint64_t items = kNoLimit;  // frames, names, events, threads
    // Of the core, so that nothing depends on how busy the machine is.
    std::chrono::nanoseconds time = std::chrono::nanoseconds::max();
  };

  // For the thread that makes it.
  explicit Budget(const Limits& limits)
      : left_(limits), begin_(limits.time == kForever ? 0 : now()) {}

  // False: so much is not left, and nothing is from then on.
  bool take_bytes(uint64_t bytes) { return take(left_.bytes, bytes); }
  bool take_items(uint64_t items) { return take(left_.items, items); }
  bool has_time() {
    spent_ = spent_ || (left_.time != kForever && now() - begin_ > left_.time.count());
    return !spent_;
  }
  bool is_spent() const { return spent_; }

 private:
  static constexpr auto kForever = std::chrono::nanoseconds::max();

  static int64_t now() {
    timespec time = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }
  bool take(uint64_t& left, uint64_t wanted) {
    spent_ = spent_ || wanted > left;
    left -= spent_ ? 0 : wanted;
    return !spent_;
  }

  Limits left_;
  int64_t begin_;
  bool spent_ = false;
};

}  // namespace traintrace
