#include "analyzer/memory/growth/left_by_step.h"

#include "analyzer/memory/blocks.h"
#include "analyzer/model/elapsed.h"

namespace traintrace {

std::vector<LeftInStep> left_by_step(const Steps& steps, const std::vector<LeftOver>& all,
                                     int64_t lower) {
  std::vector<LeftInStep> left;
  for (const LeftOver& each : all) {
    const int64_t step = steps.number_at(each.time);
    if (step >= lower && (left.empty() || left.back().first != step)) {
      left.emplace_back(step, each.bytes);
    } else if (step >= lower) {
      left.back().second = sum_of(left.back().second, each.bytes);
    }
  }
  return left;
}

uint64_t bytes_per_step(const std::vector<LeftInStep>& left) {
  constexpr size_t kEnough = 4;
  const size_t first = left.size() < kEnough ? 0 : 1;
  uint64_t bytes = 0;
  for (size_t i = first; i + 1 < left.size(); ++i) {
    bytes = sum_of(bytes, left[i].second);
  }
  const int64_t length = left.empty() ? 0 : elapsed(left[first].first, left.back().first);
  return length <= 0 ? 0 : bytes / static_cast<uint64_t>(length);
}

bool becomes_more(const std::vector<LeftInStep>& left) {
  constexpr size_t kFewest = 6;
  constexpr uint64_t kTimes = 2;
  if (left.size() < kFewest || left.end()[-2].second / kTimes < left[1].second) {
    return false;
  }
  for (size_t i = 2; i + 1 < left.size(); ++i) {
    if (left[i].first != left[i - 1].first + 1 || left[i].second < left[i - 1].second) {
      return false;  // or samples are so far apart that one tells of several steps
    }
  }
  return true;
}

}  // namespace traintrace
