// A job that exists only as numbers: ranks that go through one random program of collectives on
// random communicators, as NCCL would let them, until something happens to one of them.  What their
// traces would hold is computed, not recorded.
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// Of so many jobs those that are run: instrumented code takes twenty times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint32_t jobs_of(uint32_t all) {
  return all / 20;
}
#else
constexpr uint32_t jobs_of(uint32_t all) {
  return all;
}
#endif

struct RandomJob {
  enum class Mishap : uint8_t { kNone, kWanders, kDies, kFails };

  explicit RandomJob(uint32_t seed);

  // What happens to `victim_`, before its operation number `stops_at` in its own program.
  void let(Mishap mishap);
  // Ranks that can never finish their program, the one with the mishap left out.
  std::set<int> stuck() const;
  bool observes(int rank) const { return observed_[static_cast<size_t>(rank)]; }
  // Traces of all ranks when they are ended within `together` of each other, at the latest at
  // `end`.
  std::vector<ProcessTrace> traces(TimeNs end, TimeNs together);

  static constexpr TimeNs kNever = std::numeric_limits<TimeNs>::max() / 4;
  static constexpr TimeNs kStart = 1'700'000'000'000'000'000;

  int ranks = 0;
  int victim = 0;
  TimeNs happened = 0;       // the mishap
  TimeNs last_finished = 0;  // when the last operation finishes that ever does

 private:
  struct Step {
    size_t communicator;
    std::vector<TimeNs> entered;  // by place in the communicator
    std::vector<TimeNs> finished;
  };
  void run(Mishap mishap, size_t stops_at);
  int pick(int from, int to) { return std::uniform_int_distribution(from, to)(random_); }
  void write_rank(ProcessTrace& trace, int rank, TimeNs end);

  std::mt19937 random_;
  std::vector<std::vector<int>> communicators_;  // members
  std::vector<Step> steps_;
  std::vector<TimeNs> think_;                 // per step: between operations
  std::vector<bool> blocking_;                // per rank: synchronises after each operation
  std::vector<bool> observed_;                // per rank: asks whether operations are finished
  std::vector<std::vector<size_t>> program_;  // per rank: its steps
  Mishap mishap_ = Mishap::kNone;
};

}  // namespace traintrace
