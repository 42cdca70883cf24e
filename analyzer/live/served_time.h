// Time as a limit for our own work: on a machine that has no processor for us, it stands still.
#pragma once

#include <chrono>

namespace traintrace {

// Wall-clock time since construction, without the part in which threads of this process were ready
// to run and all of them together got less than one processor.  Who waits for another's memory or
// disk is not ready to run: that counts in full.  Never less than a quarter of the wall-clock time,
// so that each limit is one.  Not thread-safe.
class ServedTime {
 public:
  using Clock = std::chrono::steady_clock;

  // Time since the last call is weighed by what was seen at its end: to be called several times a
  // second while others work.
  Clock::duration elapsed();

 private:
  static std::chrono::nanoseconds processor_time();

  Clock::duration elapsed_ = {};
  Clock::time_point seen_ = Clock::now();
  std::chrono::nanoseconds processor_seen_ = processor_time();
};

}  // namespace traintrace
