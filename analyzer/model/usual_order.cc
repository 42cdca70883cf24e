#include "analyzer/model/usual_order.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

namespace traintrace {
namespace {

// What is the same in each step.
using Kind = std::tuple<size_t, uint32_t, uint32_t>;  // communicator, call, stack

struct Step {
  TimeNs enter = 0;
  Kind kind;
};

// All that is kept of the rank, from where it is kept of all communicators.
std::vector<Step> steps_of(const Run& run, Rank rank) {
  std::vector<Step> steps;
  TimeNs begin = 0;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const Member* member = member_of(run.communicators[i], rank);
    if (member == nullptr || run.communicators[i].size == 1) {
      continue;
    }
    const CommunicatorText& text = text_of(run, *member);
    if (text.operations > text.recent.size() && !text.recent.empty()) {
      begin = std::max(begin, text.recent.front().enter);
    }
    for (const OperationText& operation : text.recent) {
      if ((operation.flags & (format::kCaptured | format::kFailed)) == 0) {
        steps.push_back({operation.enter, Kind(i, operation.call, operation.stack)});
      }
    }
  }
  std::erase_if(steps, [&](const Step& step) { return step.enter < begin; });
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.enter < b.enter; });
  return steps;
}

// How far back from `now` each step is what it was `period` before.
size_t agreement(const std::vector<Step>& steps, size_t now, size_t period) {
  size_t length = 0;
  while (length + period < now &&
         steps[now - 1 - length].kind == steps[now - 1 - length - period].kind) {
    ++length;
  }
  return length;
}

// After how many it comes again, by that which holds for longest; 0: nothing has come twice.
size_t period_before(const std::vector<Step>& steps, size_t now) {
  size_t found = 0;
  size_t longest = 0;
  for (size_t period = 1; 2 * period <= now; ++period) {
    const size_t length = agreement(steps, now, period);
    if (length >= period && length > longest) {
      longest = length;
      found = period;
    }
  }
  return found;
}

std::optional<bool> departs(const std::vector<Step>& steps, size_t now) {
  if (now >= steps.size()) {
    return std::nullopt;
  }
  // If there is none now, it was left a little before.
  for (size_t at = now; at > 0; --at) {
    if (const size_t period = period_before(steps, at)) {
      return now - at < 2 * period ? std::optional(steps[at].kind != steps[at - period].kind)
                                   : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<bool> departs_from_habit(const Run& run, Rank rank, size_t communicator,
                                       TimeNs enter) {
  const std::vector<Step> steps = steps_of(run, rank);
  const auto found = std::find_if(steps.begin(), steps.end(), [&](const Step& step) {
    return std::get<0>(step.kind) == communicator && step.enter == enter;
  });
  return departs(steps, static_cast<size_t>(found - steps.begin()));
}

std::optional<bool> departs_from_habit(const Run& run, Rank rank) {
  const std::vector<Step> steps = steps_of(run, rank);
  return steps.empty() ? std::nullopt : departs(steps, steps.size() - 1);
}

}  // namespace traintrace
