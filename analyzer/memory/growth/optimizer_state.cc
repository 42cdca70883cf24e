#include "analyzer/memory/growth/optimizer_state.h"

#include <algorithm>
#include <map>

#include "analyzer/memory/field_value.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/reader/sections/stored_reports.h"

namespace traintrace {

bool is_optimizer_state(const ProcessTrace& trace, uint32_t stack) {
  const auto found = trace.stacks.find(stack);
  if (found == trace.stacks.end()) {
    return false;
  }
  const auto& frames = found->second.python;  // innermost first
  const auto is_of_optimizer = [](const PythonFrameText& frame) {
    return frame.file.find("torch/optim/") != frame.file.npos;
  };
  const auto first = std::find_if(frames.begin(), frames.end(), [&](const PythonFrameText& frame) {
    return is_of_optimizer(frame) || is_user_file(frame.file);
  });
  return first != frames.end() && is_of_optimizer(*first);
}

std::optional<TimeNs> first_optimizer_step(const ProcessTrace& trace,
                                           const OutOfMemoryText& failure) {
  if (!is_optimizer_state(trace, failure.stack)) {
    return std::nullopt;
  }
  enum class Whose : uint8_t { kOptimizer, kJob, kNobody };
  std::map<uint32_t, Whose> whose;  // by stack
  std::optional<TimeNs> began;
  uint32_t thread = 0;
  bool went_on = false;
  each_event(trace, [&](const CallRecord& event, FieldValues) {
    if (event.stack == 0 || event.enter_lost || event.enter >= failure.time || went_on) {
      return;
    }
    const auto [known, is_new] = whose.try_emplace(event.stack, Whose::kNobody);
    if (is_new) {
      known->second = is_optimizer_state(trace, event.stack) ? Whose::kOptimizer
                      : user_place(trace, {0}, event.stack)  ? Whose::kJob
                                                             : Whose::kNobody;
    }
    if (known->second == Whose::kOptimizer && !began) {
      began = event.enter;
      thread = event.thread;
    }
    went_on = began && event.thread == thread && known->second == Whose::kJob;
  });
  return went_on ? std::nullopt : std::optional(began.value_or(failure.time));
}

bool is_bounded_history(const ProcessTrace& trace, uint32_t stack) {
  const auto found = trace.stacks.find(stack);
  return found != trace.stacks.end() &&
         std::any_of(found->second.python.begin(), found->second.python.end(),
                     [](const PythonFrameText& frame) {
                       return frame.file.ends_with("torch/optim/lbfgs.py");
                     });
}

}  // namespace traintrace
