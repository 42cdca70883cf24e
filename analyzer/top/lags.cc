#include "analyzer/top/lags.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "analyzer/timeline/median.h"

namespace traintrace {
namespace {

constexpr uint64_t kLagCollectives = 10;
// A rank is called slow if it was last in most of these collectives, at least so many, later than
// chance makes it: a millisecond, and several times what is usual among its peers.
constexpr int kFewestCollectives = 5;
constexpr int64_t kLeastLag = 1'000'000;
constexpr int64_t kLagTimes = 4;

// In the order of the members; empty: not all have entered it.
std::vector<TimeNs> entered_by_all(const std::vector<const Entries*>& members, uint64_t sequence) {
  std::vector<TimeNs> times;
  times.reserve(members.size());
  for (const Entries* const member : members) {
    const auto entered = member->find(sequence);
    if (entered == member->end()) {
      return {};
    }
    times.push_back(entered->second);
  }
  return times;
}

void mark_exceptional(std::vector<Lag>& lags) {
  std::vector<int64_t> distances;
  distances.reserve(lags.size());
  for (const Lag& lag : lags) {
    distances.push_back(std::abs(lag.ns));
  }
  const int64_t least = std::max(kLeastLag, kLagTimes * upper_median(std::move(distances)));
  for (Lag& lag : lags) {
    lag.is_exceptional = lag.of >= kFewestCollectives && 2 * lag.last > lag.of && lag.ns > least;
  }
}

}  // namespace

Entries entries_of(const std::vector<LiveOperation>& operations) {
  Entries entries;
  for (const LiveOperation& operation : operations) {
    if (operation.collective && operation.runs && operation.sequence != 0) {
      entries[operation.sequence] = operation.enter;
    }
  }
  return entries;
}

std::vector<Lag> lags_of(const std::vector<const Entries*>& members) {
  uint64_t from = 1;
  uint64_t to = std::numeric_limits<uint64_t>::max();
  for (const Entries* const member : members) {
    if (member->empty()) {
      return {};
    }
    from = std::max(from, member->begin()->first);
    to = std::min(to, member->rbegin()->first);
  }
  if (members.size() < 2 || from > to) {
    return {};
  }
  from = std::max(from, to - std::min(to, kLagCollectives - 1));
  std::vector<Lag> lags(members.size());
  int count = 0;
  for (uint64_t sequence = from; sequence <= to; ++sequence) {
    const std::vector<TimeNs> times = entered_by_all(members, sequence);
    if (times.empty()) {
      continue;
    }
    ++count;
    const TimeNs middle = upper_median(times);
    for (size_t i = 0; i < times.size(); ++i) {
      lags[i].ns += times[i] - middle;
    }
    ++lags[static_cast<size_t>(std::max_element(times.begin(), times.end()) - times.begin())].last;
  }
  if (count == 0) {
    return {};
  }
  for (Lag& lag : lags) {
    lag.ns /= count;
    lag.of = count;
  }
  mark_exceptional(lags);
  return lags;
}

}  // namespace traintrace
