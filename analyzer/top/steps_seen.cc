#include "analyzer/top/steps_seen.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "analyzer/model/elapsed.h"

namespace traintrace {
namespace {

constexpr size_t kFewestCalls = 4;   // from one place: less often is no habit
constexpr TimeNs kLongestPause = 3;  // times the usual one

struct Site {
  std::vector<TimeNs> times;

  TimeNs period() const {
    return elapsed(times.front(), times.back()) / static_cast<TimeNs>(times.size() - 1);
  }
  // No pause is much longer than the others.
  bool is_regular() const {
    if (times.size() < kFewestCalls) {
      return false;
    }
    for (size_t i = 1; i < times.size(); ++i) {
      if (elapsed(times[i - 1], times[i]) > kLongestPause * period()) {
        return false;
      }
    }
    return period() > 0;
  }
};

// Calls from one stack with one size, by communicator.
using Sites = std::map<std::tuple<size_t, uint16_t, uint32_t, uint64_t>, Site>;

void add(Sites& sites, size_t communicator, const std::vector<LiveOperation>& operations) {
  for (const LiveOperation& operation : operations) {
    if (operation.runs && operation.collective) {
      sites[{communicator, operation.call, operation.stack, operation.count}].times.push_back(
          operation.enter);
    }
  }
}

}  // namespace

StepRule find_steps(const std::vector<LiveOperation>& compared,
                    const std::vector<std::vector<LiveOperation>>& others) {
  Sites sites;
  add(sites, 0, compared);
  for (size_t i = 0; i < others.size(); ++i) {
    add(sites, i + 1, others[i]);
  }
  const Site* rarest = nullptr;
  for (const auto& [key, site] : sites) {
    if (site.is_regular() && (rarest == nullptr || site.period() > rarest->period())) {
      rarest = &site;
    }
  }
  if (rarest == nullptr) {
    return {};
  }
  // How many collectives lie between two of these calls: the same each time, else it is no step.
  StepRule rule;
  std::optional<uint64_t> before;
  for (const TimeNs time : rarest->times) {
    const auto next =
        std::find_if(compared.begin(), compared.end(), [&](const LiveOperation& operation) {
          return operation.collective && operation.runs && operation.enter >= time;
        });
    if (next == compared.end()) {
      break;
    }
    if (compared.front().enter > time) {
      continue;  // what came first after it is not there any more
    }
    if (before && next->sequence > *before) {
      const uint64_t count = next->sequence - *before;
      if (rule.collectives != 0 && rule.collectives != count) {
        return {};
      }
      rule = {count, next->sequence};
    }
    before = next->sequence;
  }
  return rule;
}

void StepsSeen::note(const StepRule& rule, const std::vector<LiveOperation>& operations,
                     size_t most) {
  if (rule.collectives == 0) {
    return;  // as it was: one look may fall into a pause
  }
  if (rule.collectives != rule_.collectives ||
      (rule.anchor - rule_.anchor) % rule.collectives != 0) {
    *this = {};
  }
  rule_ = rule;
  for (const LiveOperation& operation : operations) {
    const bool begins = operation.collective && operation.runs && operation.sequence != 0 &&
                        (operation.sequence - rule.anchor) % rule.collectives == 0;
    if (!begins || operation.sequence <= last_) {
      continue;
    }
    if (last_enter_ != 0 && operation.sequence == last_ + rule.collectives) {
      lengths_.push_back(elapsed(last_enter_, operation.enter));
    } else if (last_enter_ != 0) {  // some were not seen: what each of them took
      const auto steps = static_cast<int64_t>((operation.sequence - last_) / rule.collectives);
      lengths_.push_back(elapsed(last_enter_, operation.enter) / std::max<int64_t>(steps, 1));
    }
    last_ = operation.sequence;
    last_enter_ = operation.enter;
    number_ = operation.sequence / rule.collectives;
  }
  if (lengths_.size() > most) {
    lengths_.erase(lengths_.begin(), lengths_.end() - static_cast<std::ptrdiff_t>(most));
  }
}

}  // namespace traintrace
