#include "analyzer/detectors/lost_time/habit.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// In half of the steps, at least twice.
size_t fewest_steps(const DeviceProfile& device) {
  return device.steps < 2 ? kFewestGaps : std::max<size_t>(2, (device.steps + 1) / 2);
}

// So many are as long as this, or longer; a pause is more than some times that.
int64_t most_of_habit(std::vector<int64_t> values, size_t fewest) {
  const auto usual = values.begin() + static_cast<ptrdiff_t>(fewest - 1);
  std::nth_element(values.begin(), usual, values.end(), std::greater<>());
  return std::min(*usual, std::numeric_limits<int64_t>::max() / kPauseTimes) * kPauseTimes;
}

int64_t added_ns(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

// Of the losses of one step, the longest such that it and all shorter ones are part of the habit.
struct KeptLosses {
  int64_t longest = -1, sum_ns = 0;
};

KeptLosses kept_of(std::vector<int64_t> losses, int64_t most_each, int64_t most_together) {
  std::sort(losses.begin(), losses.end());
  KeptLosses kept;
  int64_t sum = 0;
  for (size_t i = 0; i < losses.size() && losses[i] <= most_each; ++i) {
    sum = added_ns(sum, losses[i]);
    const bool is_last_of_its_length = i + 1 == losses.size() || losses[i + 1] != losses[i];
    if (sum > most_together) {
      break;
    }
    if (is_last_of_its_length) {
      kept = {losses[i], sum};
    }
  }
  return kept;
}

}  // namespace

int64_t stretch_of(const DeviceProfile& device, const IdleGap& loss) {
  const int64_t at_ns = loss.until_ns - loss.ns / 2;
  if (device.stretches.empty()) {
    return loss.until_ns;  // nothing is known: each is one of its own
  }
  const auto after = std::upper_bound(device.stretches.begin(), device.stretches.end(), at_ns);
  return after - device.stretches.begin() - 1;
}

Habit::Habit(const DeviceProfile& device, const std::vector<IdleGap>& losses) : device_(device) {
  std::map<int64_t, std::vector<int64_t>> by_stretch;
  size_t count = 0;
  for (const IdleGap& loss : losses) {
    if (loss.ns > 0) {
      by_stretch[stretch_of(device, loss)].push_back(loss.ns);
      ++count;
    }
  }
  const size_t fewest = fewest_steps(device);
  if (by_stretch.size() < fewest || (device.by_host && count < kFewestGapsByHost)) {
    return;
  }
  std::vector<int64_t> longest, sums;
  for (const auto& [stretch, each] : by_stretch) {
    longest.push_back(*std::max_element(each.begin(), each.end()));
    int64_t sum = 0;
    for (const int64_t ns : each) {
      sum = added_ns(sum, ns);
    }
    sums.push_back(sum);
  }
  const int64_t most_each = most_of_habit(std::move(longest), fewest);
  const int64_t most_together = device.steps < 2 ? std::numeric_limits<int64_t>::max()
                                                 : most_of_habit(std::move(sums), fewest);
  for (auto& [stretch, each] : by_stretch) {
    const KeptLosses kept = kept_of(std::move(each), most_each, most_together);
    longest_[stretch] = kept.longest;
    sum_ns_ = added_ns(sum_ns_, kept.sum_ns);
  }
}

bool Habit::has(const IdleGap& loss) const {
  const auto longest = longest_.find(stretch_of(device_, loss));
  return longest != longest_.end() && loss.ns > 0 && loss.ns <= longest->second;
}

}  // namespace traintrace
