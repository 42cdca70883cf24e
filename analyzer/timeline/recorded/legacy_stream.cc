#include "analyzer/timeline/recorded/legacy_stream.h"
#include "analyzer/thresholds.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace traintrace {
namespace {}  // namespace

void LegacyStream::created(uint64_t stream, int64_t time_ns, bool ignores_legacy) {
  creations_[stream].push_back({time_ns, ignores_legacy ? Sort::kOther : Sort::kBlocking});
}

void LegacyStream::told_to_wait(uint64_t stream, int64_t time_ns) {
  told_[stream].push_back(time_ns);
}

void LegacyStream::launched(uint64_t correlation, uint64_t stream, int64_t time_ns) {
  launches_[correlation] = {stream, time_ns};
}

// A handle may be given to another stream later.  One whose creation was not seen is not known.
LegacyStream::Sort LegacyStream::sort_of(const Launch& launch) const {
  constexpr uint64_t kLegacyHandles = 2;  // 0 and cudaStreamLegacy
  if (launch.stream < kLegacyHandles) {
    return Sort::kLegacy;
  }
  Sort sort = Sort::kOther;
  int64_t newest = std::numeric_limits<int64_t>::min();
  const auto known = creations_.find(launch.stream);
  for (const Creation& creation :
       known == creations_.end() ? std::vector<Creation>() : known->second) {
    if (creation.time_ns <= launch.time_ns && creation.time_ns >= newest) {
      newest = creation.time_ns;
      sort = creation.sort;
    }
  }
  return sort;
}

bool LegacyStream::is_told_between(uint64_t stream, int64_t after_ns, int64_t until_ns) const {
  const auto told = told_.find(stream);
  if (told == told_.end()) {
    return false;
  }
  const auto first = std::upper_bound(told->second.begin(), told->second.end(), after_ns);
  return first != told->second.end() && *first <= until_ns;
}

std::optional<LegacyWait> LegacyStream::wait_of(const Item& item, const Item& previous,
                                                const Item& other, bool is_legacy) const {
  const int64_t start_ns = item.work->start_ns;
  int64_t ready = item.launch.time_ns;
  int64_t told_after = std::numeric_limits<int64_t>::min();
  if (previous.work != nullptr) {
    ready = std::max(ready, previous.work->end_ns);
    told_after = previous.launch.time_ns;
  }
  const bool is_its_turn = other.work != nullptr && other.launch.time_ns < item.launch.time_ns &&
                           other.work->end_ns > ready && start_ns >= other.work->end_ns &&
                           start_ns - other.work->end_ns < kSoonNs;
  if (!is_its_turn || start_ns - ready <= kSoonNs ||
      is_told_between(item.launch.stream, told_after, item.launch.time_ns)) {
    return std::nullopt;
  }
  const GpuWork& legacy = is_legacy ? *item.work : *other.work;
  return LegacyWait{ready, start_ns, legacy.correlation, item.work->device};
}

std::vector<LegacyWait> LegacyStream::waits(const std::vector<GpuWork>& work) {
  for (auto& [stream, times] : told_) {
    std::sort(times.begin(), times.end());
  }
  std::vector<LegacyWait> result;
  std::map<int32_t, Before> devices;
  for (const GpuWork& each : work) {
    const auto launch = launches_.find(each.correlation);
    const bool known = launch != launches_.end();
    const Item item{&each, known ? launch->second : Launch{}};
    const Sort sort = known ? sort_of(item.launch) : Sort::kOther;
    Before& before = devices[each.device];
    const Item previous = std::exchange(before.on_stream[each.stream], item);
    if (sort == Sort::kOther) {
      continue;
    }
    const bool is_legacy = sort == Sort::kLegacy;
    if (const std::optional<LegacyWait> wait =
            wait_of(item, previous, is_legacy ? before.blocking : before.legacy, is_legacy)) {
      result.push_back(*wait);
    }
    Item& last = is_legacy ? before.legacy : before.blocking;
    if (last.work == nullptr || last.work->end_ns <= each.end_ns) {
      last = item;
    }
  }
  return result;
}

}  // namespace traintrace
