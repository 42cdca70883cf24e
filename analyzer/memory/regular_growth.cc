#include "analyzer/memory/regular_growth.h"

#include <algorithm>

#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"

namespace traintrace {

std::vector<Round> rounds_of(const StackMemoryText& memory, const Steps& steps, int64_t start) {
  const std::vector<LeftOver> left = left_over(memory);
  uint64_t blocks = 1;  // the newest allocation, which is not among those that were left
  for (const LeftOver& each : left) {
    blocks = sum_of(blocks, each.blocks);
  }
  if (blocks != memory.allocations || memory.samples.empty()) {
    return {};
  }
  std::vector<Round> rounds;
  const auto add = [&](TimeNs time, uint64_t bytes, uint64_t count) {
    const int64_t step = steps.number_at(time);
    if (step <= start) {
      return;  // before the first step
    }
    if (rounds.empty() || rounds.back().step != step) {
      rounds.push_back({step});
    }
    rounds.back().bytes = sum_of(rounds.back().bytes, bytes);
    rounds.back().blocks = sum_of(rounds.back().blocks, count);
  };
  for (const LeftOver& each : left) {
    add(each.time, each.bytes, each.blocks);
  }
  add(memory.last, memory.last_bytes - memory.samples.back().bytes, 1);
  return rounds;
}

bool grows_by_rounds(std::span<const Round> rounds, int64_t start, int64_t end) {
  if (rounds.size() < kFewestRounds) {
    return false;
  }
  const Round& first = rounds.front();
  const int64_t distance = elapsed(first.step, rounds[1].step);
  // What is done in each step is judged by steps, and numbers are an evaluation's result.
  if (distance < 2 || first.bytes <= kLittleCopy * first.blocks ||
      elapsed(start, first.step) > distance || elapsed(rounds.back().step, end) > distance) {
    return false;
  }
  const auto differs = [&](const Round& a, const Round& b) {
    return elapsed(a.step, b.step) != distance || a.bytes != b.bytes || a.blocks != b.blocks;
  };
  return std::adjacent_find(rounds.begin(), rounds.end(), differs) == rounds.end();
}

}  // namespace traintrace
