#include "analyzer/memory/growth/first_pass.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "analyzer/memory/field_value.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/reader/sections/stored_reports.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

bool has_frame_in(const StackText& stack, std::string_view part) {
  return std::any_of(stack.python.begin(), stack.python.end(), [&](const PythonFrameText& frame) {
    return frame.file.find(part) != frame.file.npos;
  });
}

bool any_stack_in(const ProcessTrace& trace, std::string_view part) {
  return std::any_of(trace.stacks.begin(), trace.stacks.end(),
                     [&](const auto& entry) { return has_frame_in(entry.second, part); });
}

bool is_of_training(const StackText& stack) {
  return has_frame_in(stack, "/torch/optim/") || has_frame_in(stack, "/torch/autograd/__init__.py");
}

bool is_between_host_and_device(const CallRecord& event, FieldValues values,
                                const CallSchema& schema) {
  constexpr uint64_t kHostToDevice = 1;  // cudaMemcpyKind
  constexpr uint64_t kDeviceToHost = 2;
  const uint64_t direction = field_value(values, schema, "direction").value_or(0);
  return schema.kind == "copy" && event.result == 0 &&
         (direction == kHostToDevice || direction == kDeviceToHost);
}

// The steps that brought something back.
class Returns {
 public:
  Returns(const ProcessTrace& trace, const Steps& steps) : trace_(trace), steps_(steps) {}
  std::set<int64_t> in_steps;

  void see(const CallRecord& event, FieldValues values, const CallSchema& schema) {
    if (is_between_host_and_device(event, values, schema)) {
      in_steps.insert(steps_.number_at(event.enter));
    } else if (schema.kind == "tensor-block") {
      const uint64_t address = field_value(values, schema, "address").value_or(0);
      const auto change = static_cast<int64_t>(field_value(values, schema, "change").value_or(0));
      if (change > 0) {
        made_by_[address] = event.stack;
      } else if (const auto block = made_by_.find(address); block != made_by_.end()) {
        if (!is_of_layer(block->second)) {
          in_steps.insert(steps_.number_at(event.enter));
        }
        made_by_.erase(block);
      }
    }
  }

 private:
  bool is_of_layer(uint32_t stack) {
    const auto [known, is_new] = of_layer_.emplace(stack, false);
    if (is_new) {
      const auto found = trace_.stacks.find(stack);
      known->second = found != trace_.stacks.end() && has_frame_in(found->second, "/torch/nn/");
    }
    return known->second;
  }

  const ProcessTrace& trace_;
  const Steps& steps_;
  std::unordered_map<uint64_t, uint32_t> made_by_;  // stack, by address
  std::unordered_map<uint32_t, bool> of_layer_;     // by stack
};

}  // namespace

bool only_goes_forward(const ProcessTrace& trace, const Steps& steps) {
  std::set<uint32_t> training;
  for (const auto& [id, stack] : trace.stacks) {
    if (is_of_training(stack)) {
      training.insert(id);
    }
  }
  return any_stack_in(trace, "/torch/nn/") &&
         (training.empty() ||
          std::none_of(trace.events.begin(), trace.events.end(), [&](const CallRecord& event) {
            return event.enter >= steps.first() && training.contains(event.stack);
          }));
}

bool may_be_first_pass(const ProcessTrace& trace, const Steps& steps) {
  const bool went_back =
      std::any_of(trace.stacks.begin(), trace.stacks.end(),
                  [](const auto& entry) { return is_of_training(entry.second); });
  if (steps.starts.empty() || went_back || !only_goes_forward(trace, steps)) {
    return false;
  }
  Returns returns(trace, steps);
  each_event(trace, [&](const CallRecord& event, FieldValues values) {
    const CallSchema* const schema = schema_of(trace, event.call);
    if (schema != nullptr && !event.enter_lost && event.returned && event.enter >= steps.first() &&
        event.enter <= steps.last()) {
      returns.see(event, values, *schema);
    }
  });
  const std::set<int64_t>& in_steps = returns.in_steps;
  return in_steps.size() < kFewestSteps ||
         kBringsBackFor * elapsed(*in_steps.begin(), *in_steps.rbegin()) <
             static_cast<int64_t>(steps.starts.size());
}

}  // namespace traintrace
