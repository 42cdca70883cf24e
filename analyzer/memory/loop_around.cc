#include "analyzer/memory/loop_around.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <unordered_map>

#include "analyzer/memory/blocks.h"
#include "analyzer/memory/field_value.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/reader/sections/stored_reports.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// What is in use after each change, by the driver and by PyTorch's allocator together: only its
// changes matter.  And how much was taken until then.
struct Level {
  TimeNs time = 0;
  int64_t bytes = 0;
  int64_t taken = 0;
};

class Levels {
 public:
  explicit Levels(const ProcessTrace& trace) {
    each_event(trace, [&](const CallRecord& event, FieldValues values) {
      const CallSchema* const schema = schema_of(trace, event.call);
      if (schema != nullptr && !event.enter_lost && event.returned && event.result == 0) {
        see(event, values, *schema);
      }
    });
  }

  // By how much it goes up and down between these times beyond what it gains or loses in all, as a
  // share of what is taken meanwhile; 0 where nothing is.
  double restlessness(const CallTimes& times) const {
    const Level first = at(times.front());
    Level last = first;
    double moved = 0;
    for (const TimeNs time : times) {
      const Level now = at(time);
      moved += static_cast<double>(std::abs(now.bytes - last.bytes));
      last = now;
    }
    const auto gained = static_cast<double>(std::abs(last.bytes - first.bytes));
    const int64_t taken = last.taken - first.taken;
    return taken <= 0 ? 0 : (moved - gained) / static_cast<double>(taken);
  }

 private:
  void see(const CallRecord& event, FieldValues values, const CallSchema& schema) {
    const uint64_t address = number_in(values, schema, "address");
    if (schema.kind == "tensor-block") {
      change(event.enter, static_cast<int64_t>(number_in(values, schema, "change")));
    } else if (schema.kind == "alloc" && address != 0 && kind_of_call(schema.name)) {
      const uint64_t bytes = number_in(values, schema, "bytes");
      sizes_[address] = bytes > kMostBytes ? 0 : static_cast<int64_t>(bytes);
      change(event.enter, sizes_[address]);
    } else if (const auto block = sizes_.find(address);
               schema.kind == "free" && block != sizes_.end()) {
      change(event.enter, -block->second);
      sizes_.erase(block);
    }
  }

  void change(TimeNs time, int64_t bytes) {
    constexpr int64_t kMostMoved = int64_t{1} << 60;
    Level now = levels_.empty() ? Level() : levels_.back();
    if (bytes > kMostBytes || bytes < -kMostBytes || moved_ > kMostMoved) {
      return;
    }
    moved_ += std::abs(bytes);
    now.time = time;
    now.bytes += bytes;
    now.taken += std::max<int64_t>(bytes, 0);
    levels_.push_back(now);
  }

  Level at(TimeNs time) const {
    const auto after =
        std::upper_bound(levels_.begin(), levels_.end(), time,
                         [](TimeNs wanted, const Level& level) { return wanted < level.time; });
    return after == levels_.begin() ? Level() : *(after - 1);
  }

  // Sizes in damaged records may be anything: what no device has is left out.
  static constexpr int64_t kMostBytes = int64_t{1} << 44;

  std::vector<Level> levels_;
  int64_t moved_ = 0;                            // in and out
  std::unordered_map<uint64_t, int64_t> sizes_;  // of what is live, by address
};

}  // namespace

size_t calls_in_each_round(const CallTimes& outer, const CallTimes& inner) {
  if (outer.size() < kFewestSteps || 2 * (outer.size() - 1) > inner.size()) {
    return 0;
  }
  std::vector<size_t> counts;
  auto begin = std::lower_bound(inner.begin(), inner.end(), outer.front());
  for (size_t i = 1; i < outer.size(); ++i) {
    const auto end = std::lower_bound(begin, inner.end(), outer[i]);
    counts.push_back(static_cast<size_t>(end - begin));
    begin = end;
  }
  std::vector<size_t> sorted = counts;
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const auto alike = static_cast<double>(std::count(counts.begin(), counts.end(), *middle));
  const bool nearly_all = alike >= kAlikeRounds * static_cast<double>(counts.size());
  return nearly_all && *middle >= 2 ? *middle : 0;
}

const CallTimes* loop_around(const ProcessTrace& trace, const std::vector<const CallTimes*>& places,
                             const CallTimes& inner) {
  struct Candidate {
    const CallTimes* times;
    size_t calls;  // of `inner` in each of its rounds
  };
  std::vector<Candidate> candidates;
  for (const CallTimes* const times : places) {
    if (const size_t calls = calls_in_each_round(*times, inner); calls != 0) {
      candidates.push_back({times, calls});
    }
  }
  if (candidates.empty()) {
    return nullptr;
  }
  const Levels levels(trace);
  if (levels.restlessness(inner) < kCalm) {
    return nullptr;
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.calls < b.calls; });
  const auto found = std::find_if(
      candidates.begin(), candidates.end(),
      [&](const Candidate& candidate) { return levels.restlessness(*candidate.times) < kCalm; });
  return found == candidates.end() ? nullptr : found->times;
}

}  // namespace traintrace
