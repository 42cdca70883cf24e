#include "analyzer/model/divergence/usual_order.h"
#include "analyzer/thresholds.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

namespace traintrace {
namespace {

// What is the same in each step.
using Kind = std::tuple<size_t, uint32_t, uint32_t>;  // communicator, call, stack

struct OrderStep {
  TimeNs enter = 0;
  Kind kind;
  bool receive = false;
  int peer = -1;
};

// All that is kept of the rank, from where it is kept of all communicators.
std::vector<OrderStep> steps_of(const Run& run, Rank rank) {
  std::vector<OrderStep> steps;
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
        steps.push_back({operation.enter, Kind(i, operation.call, operation.stack),
                         operation.receive, operation.peer});
      }
    }
  }
  std::erase_if(steps, [&](const OrderStep& step) { return step.enter < begin; });
  std::stable_sort(steps.begin(), steps.end(),
                   [](const OrderStep& a, const OrderStep& b) { return a.enter < b.enter; });
  return steps;
}

// How far back from `now` each step is what it was `period` before.
size_t agreement(const std::vector<OrderStep>& steps, size_t now, size_t period) {
  size_t length = 0;
  while (length + period < now &&
         steps[now - 1 - length].kind == steps[now - 1 - length - period].kind) {
    ++length;
  }
  return length;
}

// After how many it comes again, by that which holds for longest; 0: nothing has come twice.
size_t period_before(const std::vector<OrderStep>& steps, size_t now) {
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

struct Turn {
  size_t at = 0;
  bool departs = false;
};

std::optional<Turn> turn_at(const std::vector<OrderStep>& steps, size_t now) {
  if (now >= steps.size()) {
    return std::nullopt;
  }
  // If there is none now, it was left a little before.
  for (size_t at = now; at > 0; --at) {
    if (const size_t period = period_before(steps, at)) {
      return now - at < 2 * period
                 ? std::optional(Turn{at, steps[at].kind != steps[at - period].kind})
                 : std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<bool> departs(const std::vector<OrderStep>& steps, size_t now) {
  const auto turn = turn_at(steps, now);
  return turn ? std::optional(turn->departs) : std::nullopt;
}

bool departs_to_known(const std::vector<OrderStep>& steps, size_t now) {
  const auto turn = turn_at(steps, now);
  return turn && turn->departs &&
         std::count_if(steps.begin(), steps.begin() + static_cast<ptrdiff_t>(turn->at),
                       [&](const OrderStep& step) { return step.kind == steps[turn->at].kind; }) >=
             static_cast<ptrdiff_t>(kHabitTimes);
}

// Where in `steps` it entered that; their end: nowhere.
size_t place_of(const std::vector<OrderStep>& steps, size_t communicator, TimeNs enter) {
  const auto found = std::find_if(steps.begin(), steps.end(), [&](const OrderStep& step) {
    return std::get<0>(step.kind) == communicator && step.enter == enter;
  });
  return static_cast<size_t>(found - steps.begin());
}

const OrderStep* step_before(const std::vector<OrderStep>& steps, TimeNs enter) {
  const auto found =
      std::lower_bound(steps.begin(), steps.end(), enter,
                       [](const OrderStep& step, TimeNs time) { return step.enter < time; });
  return found == steps.begin() || found == steps.end() || found->enter != enter ? nullptr
                                                                                 : &*(found - 1);
}

// From whatever line, and of whatever size.
bool is_alike(const OrderStep& a, const OrderStep& b) {
  return std::get<0>(a.kind) == std::get<0>(b.kind) && std::get<1>(a.kind) == std::get<1>(b.kind) &&
         a.receive == b.receive && a.peer == b.peer;
}

}  // namespace

bool is_behind_another(const Run& run, Rank rank, TimeNs enter, const std::vector<TimeNs>& usual) {
  const std::vector<OrderStep> steps = steps_of(run, rank);
  const OrderStep* const before = step_before(steps, enter);
  size_t known = 0;
  for (const TimeNs time : usual) {
    const OrderStep* const its = step_before(steps, time);
    known += its == nullptr ? 0 : 1;
    if (before == nullptr || (its != nullptr && is_alike(*its, *before))) {
      return false;
    }
  }
  return known >= kHabitTimes;
}

std::optional<bool> departs_from_habit(const Run& run, Rank rank, size_t communicator,
                                       TimeNs enter) {
  const std::vector<OrderStep> steps = steps_of(run, rank);
  return departs(steps, place_of(steps, communicator, enter));
}

bool departs_to_known(const Run& run, Rank rank, size_t communicator, TimeNs enter) {
  const std::vector<OrderStep> steps = steps_of(run, rank);
  return departs_to_known(steps, place_of(steps, communicator, enter));
}

bool departs_to_known(const Run& run, Rank rank) {
  const std::vector<OrderStep> steps = steps_of(run, rank);
  return !steps.empty() && departs_to_known(steps, steps.size() - 1);
}

std::optional<bool> departs_from_habit(const Run& run, Rank rank) {
  const std::vector<OrderStep> steps = steps_of(run, rank);
  return steps.empty() ? std::nullopt : departs(steps, steps.size() - 1);
}

}  // namespace traintrace
