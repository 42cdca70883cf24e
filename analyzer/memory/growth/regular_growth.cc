#include "analyzer/memory/growth/regular_growth.h"

#include <algorithm>

#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// By step, without what came before the first step.
std::vector<Round> by_step(const std::vector<LeftOver>& all, const Steps& steps, int64_t start) {
  std::vector<Round> rounds;
  for (const LeftOver& each : all) {
    const int64_t step = steps.number_at(each.time);
    if (step <= start) {
      continue;
    }
    if (rounds.empty() || rounds.back().step != step) {
      rounds.push_back({step});
    }
    rounds.back().bytes = sum_of(rounds.back().bytes, each.bytes);
    rounds.back().blocks = sum_of(rounds.back().blocks, each.blocks);
    ++rounds.back().samples;
  }
  return rounds;
}

// One sample tells of as many blocks as steps lie between samples: each step may have left one.
bool may_be_of_each_step(const Round& round, int64_t distance) {
  return round.blocks > round.samples && round.blocks % static_cast<uint64_t>(distance) == 0;
}

}  // namespace

std::vector<Round> rounds_of(const StackMemoryText& memory, const Steps& steps, int64_t start) {
  std::vector<LeftOver> left = left_over(memory);
  uint64_t blocks = 1;  // the newest allocation, which is not among those that were left
  for (const LeftOver& each : left) {
    blocks = sum_of(blocks, each.blocks);
  }
  if (blocks != memory.allocations || memory.samples.empty()) {
    return {};
  }
  left.push_back({memory.last, memory.last_bytes - memory.samples.back().bytes, 1});
  return by_step(left, steps, start);
}

std::vector<Round> rounds_of_additions(const StackMemoryText& memory, const Steps& steps,
                                       int64_t start) {
  std::vector<LeftOver> added = added_to_one(memory);
  if (!added.empty() && memory.newest > memory.samples.back().bytes) {
    added.push_back({memory.last, memory.newest - memory.samples.back().bytes, 1});
  }
  return by_step(added, steps, start);
}

bool grows_by_rounds(std::span<const Round> rounds, int64_t start, int64_t end) {
  if (rounds.size() < kFewestRounds) {
    return false;
  }
  const Round& first = rounds.front();
  const int64_t distance = elapsed(first.step, rounds[1].step);
  // What is done in each step is judged by steps, and numbers are an evaluation's result.
  if (distance < 2 || may_be_of_each_step(first, distance) ||
      first.bytes <= kLittleCopy * first.blocks || elapsed(start, first.step) > distance ||
      elapsed(rounds.back().step, end) > distance) {
    return false;
  }
  const auto differs = [&](const Round& a, const Round& b) {
    return elapsed(a.step, b.step) != distance || a.bytes != b.bytes || a.blocks != b.blocks;
  };
  return std::adjacent_find(rounds.begin(), rounds.end(), differs) == rounds.end();
}

}  // namespace traintrace
