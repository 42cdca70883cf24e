#include "analyzer/detectors/lost_time/host_habit.h"

#include <algorithm>
#include <functional>
#include <set>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace {

// In how many of kStretches parts, with as many of `pauses` each, it was late by the usual or half.
size_t parts_with_usual(const OwnLateness& lateness, const std::vector<size_t>& pauses) {
  const double least = kLateAsLast * static_cast<double>(usual_lateness(lateness.charges));
  std::set<size_t> parts;
  for (size_t i = 0; i < lateness.charges.size(); ++i) {
    const auto at = std::lower_bound(pauses.begin(), pauses.end(), lateness.charged_at[i]);
    if (static_cast<double>(lateness.charges[i]) >= least) {
      parts.insert(static_cast<size_t>(at - pauses.begin()) * kStretches / pauses.size());
    }
  }
  return parts.size();
}

}  // namespace

int64_t usual_lateness(std::vector<int64_t> charges) {
  std::sort(charges.begin(), charges.end(), std::greater<>());
  int64_t all = 0;
  for (const int64_t charge : charges) {
    all = added_within(all, charge);
  }
  int64_t sum = 0;
  for (const int64_t charge : charges) {
    sum = added_within(sum, charge);
    if (sum >= all / 2) {
      return charge;
    }
  }
  return 0;
}

std::vector<size_t> collectives_after_pauses(const Arrivals& arrivals) {
  std::vector<size_t> after;
  for (size_t index = 1; index < arrivals.list.size(); ++index) {
    const std::vector<int64_t>& idle = arrivals.list[index].most_own_ns;
    if (std::any_of(idle.begin(), idle.end(),
                    [&](int64_t ns) { return ns >= arrivals.noise_ns(); })) {
      after.push_back(index);
    }
  }
  return after;
}

bool is_host_habit(const Arrivals& arrivals, const OwnLateness& lateness) {
  const std::vector<size_t> pauses = collectives_after_pauses(arrivals);
  return pauses.size() >= kStragglerMany &&
         static_cast<double>(lateness.times) >=
             kStragglerHabit * static_cast<double>(pauses.size()) &&
         static_cast<double>(parts_with_usual(lateness, pauses)) >=
             kStragglerHabit * static_cast<double>(kStretches);
}

}  // namespace traintrace
