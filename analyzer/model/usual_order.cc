#include "analyzer/model/usual_order.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace traintrace {
namespace {

constexpr size_t kHabit = 2;

// What is the same in each step.
using Kind = std::tuple<size_t, uint32_t, uint32_t>;  // communicator, call, stack

struct Step {
  TimeNs enter = 0;
  Kind kind;
  uint64_t sequence = 0;
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
        steps.push_back({operation.enter, Kind(i, operation.call, operation.stack),
                         operation.collective ? operation.sequence : 0});
      }
    }
  }
  std::erase_if(steps, [&](const Step& step) { return step.enter < begin; });
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.enter < b.enter; });
  return steps;
}

std::optional<bool> departs(const std::vector<Step>& steps, std::vector<Step>::const_iterator now) {
  if (now == steps.end() || now == steps.begin() || now->sequence == 0) {
    return std::nullopt;
  }
  // What one operation has led to now this and now that is no habit, here or elsewhere.
  std::map<Kind, std::pair<Kind, size_t>> habits;
  for (auto step = steps.begin(); step != std::prev(now); ++step) {
    const Kind next = std::next(step)->kind;
    auto& [habit, times] = habits.try_emplace(step->kind, next, 0).first->second;
    if (habit != next) {
      return std::nullopt;
    }
    ++times;
  }
  const auto habit = habits.find(std::prev(now)->kind);
  return habit == habits.end() || habit->second.second < kHabit
             ? std::nullopt
             : std::optional(now->kind != habit->second.first);
}

}  // namespace

std::optional<bool> departs_from_habit(const Run& run, Rank rank, size_t communicator,
                                       uint64_t sequence) {
  const std::vector<Step> steps = steps_of(run, rank);
  return departs(steps, std::find_if(steps.begin(), steps.end(), [&](const Step& step) {
                   return std::get<0>(step.kind) == communicator && step.sequence == sequence;
                 }));
}

std::optional<bool> departs_from_habit(const Run& run, Rank rank) {
  const std::vector<Step> steps = steps_of(run, rank);
  return steps.empty() ? std::nullopt : departs(steps, std::prev(steps.end()));
}

}  // namespace traintrace
