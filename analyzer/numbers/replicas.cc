#include "analyzer/numbers/replicas.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

using PlacesOfValues = std::unordered_map<uint64_t, size_t>;

// Where values are that occur once.
PlacesOfValues unique_values(const ReplicaSeries& series) {
  PlacesOfValues places;
  std::unordered_set<uint64_t> repeated;
  for (size_t i = 0; i < series.values.size(); ++i) {
    if (!places.emplace(series.values[i], i).second) {
      repeated.insert(series.values[i]);
    }
  }
  for (const uint64_t value : repeated) {
    places.erase(value);
  }
  return places;
}

// How many values of `base` come before the first of `other`, as most of those say that both have
// once.  None: they have too few in common.
std::optional<int64_t> shift_of(const PlacesOfValues& base, const ReplicaSeries& other) {
  std::map<int64_t, size_t> votes;
  for (const auto& [value, place] : unique_values(other)) {
    const auto found = base.find(value);
    if (found != base.end()) {
      ++votes[static_cast<int64_t>(found->second) - static_cast<int64_t>(place)];
    }
  }
  const auto best = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return best != votes.end() && best->second >= kHabitOfReplicas ? std::optional(best->first)
                                                                 : std::nullopt;
}

class AlignedReplicas {
 public:
  explicit AlignedReplicas(std::span<const ReplicaSeries> all) : all_(all) {}

  // Steps are counted from the first that all have.
  bool align() {
    if (all_.size() < 2) {
      return false;
    }
    const PlacesOfValues base = unique_values(all_.front());
    int64_t begin = 0;
    std::vector<int64_t> shifts = {0};
    for (const ReplicaSeries& other : all_.subspan(1)) {
      const std::optional<int64_t> shift = shift_of(base, other);
      if (!shift) {
        return false;
      }
      shifts.push_back(*shift);
      begin = std::max(begin, *shift);
    }
    steps_ = std::numeric_limits<size_t>::max();
    for (size_t i = 0; i < all_.size(); ++i) {
      first_.push_back(static_cast<size_t>(begin - shifts[i]));
      const size_t size = all_[i].values.size();
      steps_ = std::min(steps_, size - std::min(size, first_.back()));
    }
    return true;
  }

  size_t steps() const { return steps_; }
  uint64_t value(size_t series, size_t step) const {
    return all_[series].values[first_[series] + step];
  }
  size_t place(size_t series, size_t step) const { return first_[series] + step; }

  bool agrees(size_t step) const {
    for (size_t i = 1; i < all_.size(); ++i) {
      if (value(i, step) != value(0, step)) {
        return false;
      }
    }
    return true;
  }

  size_t first_difference() const {
    size_t step = 0;
    while (step < steps_ && agrees(step)) {
      ++step;
    }
    return step;
  }

  // Enough different values to be no accident and no constant.
  bool was_habit(size_t until) const {
    std::unordered_set<uint64_t> different;
    for (size_t step = 0; step < until && different.size() < kHabitOfReplicas; ++step) {
      different.insert(value(0, step));
    }
    return different.size() >= kHabitOfReplicas;
  }

  bool is_finite(size_t step) const {
    for (size_t i = 0; i < all_.size(); ++i) {
      if (!all_[i].numbers.empty() && !std::isfinite(all_[i].numbers[place(i, step)])) {
        return false;
      }
    }
    return true;
  }

  // Indices of the series, by value, most first.
  std::vector<std::vector<size_t>> classes(size_t step) const {
    std::map<uint64_t, std::vector<size_t>> by_value;
    for (size_t i = 0; i < all_.size(); ++i) {
      by_value[value(i, step)].push_back(i);
    }
    std::vector<std::vector<size_t>> classes;
    classes.reserve(by_value.size());
    for (auto& [own, members] : by_value) {
      classes.push_back(std::move(members));
    }
    std::sort(classes.begin(), classes.end(), [](const auto& a, const auto& b) {
      return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
    });
    return classes;
  }

  // Whether the value of one in that step is one of the other in another step: it fetches more
  // often, or some of its records were dropped.
  bool has_slipped(size_t a, size_t b, size_t step) const {
    return occurs(b, value(a, step)) || occurs(a, value(b, step));
  }

  bool is_rounding(size_t step) const {
    double least = std::numeric_limits<double>::infinity();
    double largest = -least;
    for (size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].numbers.empty()) {
        return false;
      }
      least = std::min(least, all_[i].numbers[place(i, step)]);
      largest = std::max(largest, all_[i].numbers[place(i, step)]);
    }
    return largest - least <= kReplicaRounding * std::max(std::abs(least), std::abs(largest));
  }

 private:
  bool occurs(size_t series, uint64_t wanted) const {
    const std::span<const uint64_t> values = all_[series].values;
    return std::find(values.begin(), values.end(), wanted) != values.end();
  }

  std::span<const ReplicaSeries> all_;
  std::vector<size_t> first_;  // of each series: its value of the first step
  size_t steps_ = 0;
};

}  // namespace

std::optional<Drift> drift_of(std::span<const ReplicaSeries> all) {
  AlignedReplicas comparison(all);
  if (!comparison.align()) {
    return std::nullopt;
  }
  Drift drift;
  drift.equal = comparison.first_difference();
  if (drift.equal == comparison.steps() || !comparison.was_habit(drift.equal) ||
      !comparison.is_finite(drift.equal)) {
    return std::nullopt;
  }
  const std::vector<std::vector<size_t>> classes = comparison.classes(drift.equal);
  for (const std::vector<size_t>& members : classes) {
    if (members != classes.front() &&
        comparison.has_slipped(classes.front().front(), members.front(), drift.equal)) {
      return std::nullopt;
    }
    Ranks& side = drift.sides.emplace_back();
    for (const size_t member : members) {
      insert(side, all[member].rank);
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    drift.first.push_back(comparison.place(i, drift.equal));
  }
  std::optional<size_t> odd;
  bool is_one = true;
  drift.is_rounding = true;
  for (size_t step = drift.equal; step < comparison.steps(); ++step) {
    if (comparison.agrees(step)) {
      drift.is_over = true;
      continue;
    }
    // Replicas that have parted are never equal again, bit for bit: what differs now and then each
    // rank computes by itself, as a metric of its own, or steps between two that average.
    if (drift.is_over) {
      return std::nullopt;
    }
    ++drift.differing;
    drift.is_rounding = drift.is_rounding && comparison.is_rounding(step);
    const std::vector<std::vector<size_t>> now = comparison.classes(step);
    is_one = is_one && now.size() == 2 && now.front().size() >= 2 && now.back().size() == 1 &&
             odd.value_or(now.back().front()) == now.back().front();
    odd = now.back().front();
  }
  if (is_one && odd) {
    drift.odd = all[*odd].rank;
  }
  return drift;
}

}  // namespace traintrace
