// The process that asks NVML.  Its calls may never return and keep their process from ending, so
// it is a child that the one who writes the file can leave behind.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace traintrace {

inline constexpr int kMostQuerySlots = 160;  // two threads for each device, and two more
inline constexpr int kMostWhyBytes = 512;

// What a thread of the sampler is asking right now.  In memory that both processes share.
struct QuerySlot {
  std::atomic<int64_t> since_ns;      // CLOCK_MONOTONIC; 0: nothing
  std::atomic<const char*> function;  // text of this program, so the same in both
  std::atomic<int> device;            // -1: none in particular
};

enum class SamplerState : int { kStarting, kRunning, kUnusable };

struct SamplerBoard {
  std::atomic<SamplerState> state;
  char why[kMostWhyBytes];  // where it is unusable; stored before `state`
  QuerySlot slots[kMostQuerySlots];
};

struct SamplerOptions {
  int64_t interval_ns = 0;
  bool nvlink = false;
};

class Sampler {
 public:
  // Forks, so before this process has threads.  Null: no process or memory could be had.
  static std::unique_ptr<Sampler> start(const SamplerOptions& options);
  ~Sampler();  // leaves it behind where it does not end
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Whole lines of a telemetry file come out of it; at its end the sampler has ended.
  int lines() const { return lines_; }
  const SamplerBoard& board() const { return *board_; }
  // Has it take a last reading of each device and end.
  void stop();

 private:
  Sampler(SamplerBoard* board, int child, int lines, int stop)
      : board_(board), child_(child), lines_(lines), stop_(stop) {}

  SamplerBoard* board_;
  int child_;
  int lines_;
  int stop_;  // closed: it shall end
};

}  // namespace traintrace
