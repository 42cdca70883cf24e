#include "analyzer/memory/holders/holders.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "analyzer/memory/allocator/shortage.h"
#include "analyzer/memory/allocator/workspaces.h"
#include "analyzer/memory/field_value.h"
#include "analyzer/memory/growth/growth.h"
#include "analyzer/memory/growth/optimizer_state.h"
#include "analyzer/memory/holders/block_births.h"
#include "analyzer/memory/holders/callers.h"
#include "analyzer/memory/library_names.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/reader/sections/stored_reports.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

bool is_block_report(const ProcessTrace& trace, uint32_t call) {
  const CallSchema* schema = schema_of(trace, call);
  return schema != nullptr && schema->kind.starts_with("tensor-");
}

// Told block by block, by the steps that it has lived through.
class Roles {
 public:
  Roles(const ProcessTrace& trace, const MemoryHistory& history, const OutOfMemoryText& failed)
      : trace_(trace), growth_(trace, history) {
    const TimeNs failure = failed.time;
    each_event(trace, [&](const CallRecord& event, FieldValues values) {
      has_births_ = has_births_ || allocates(event, values);
    });
    first_optimizer_step_ = first_optimizer_step(trace, failed);
    if (first_optimizer_step_) {
      return;  // the job had taken no step: what repeats within one, as layers do, is none
    }
    for (const GrowingGroup& growing : growth_.growing()) {
      growing_.push_back(growing.group.stack);
    }
    for (const TimeNs start : history.steps.starts) {
      if (start <= failure) {
        starts_.push_back(start);
      }
    }
    if (starts_.size() > kStepsBefore) {
      each_event(trace, [&](const CallRecord& event, FieldValues values) { see(event, values); });
    }
  }

  // From 1; 0: before them.
  int64_t step_of(TimeNs birth) const {
    return std::upper_bound(starts_.begin(), starts_.end(), birth) - starts_.begin();
  }

  MemoryRole of(uint32_t stack, TimeNs birth, uint64_t bytes) {
    if (std::find(growing_.begin(), growing_.end(), growth_.path_of(stack)) != growing_.end()) {
      return MemoryRole::kGrowing;
    }
    if (is_workspace(stack, bytes)) {
      return MemoryRole::kWorkspace;
    }
    const bool has_steps = starts_.size() > 1 && (birth != 0 || has_births_);
    // The last step began somewhere within the round of the loop: what is younger than the start
    // before may be of this round.  What the optimizer makes for a moment is no state.
    const bool is_kept = has_steps && birth < starts_[starts_.size() - 2];
    if (is_optimizer_state(trace_, stack) && (is_kept || !has_steps)) {
      return MemoryRole::kOptimizer;
    }
    if (first_optimizer_step_ && birth < *first_optimizer_step_ && has_no_line(trace_, stack)) {
      return MemoryRole::kGradients;
    }
    return !has_steps           ? MemoryRole::kUnknown
           : !is_kept           ? (is_of_steps(stack) ? MemoryRole::kPassing : MemoryRole::kNew)
           : birth < starts_[1] ? MemoryRole::kState
                                : MemoryRole::kKept;
  }

 private:
  // The last may be under way, and began somewhere in the round of the loop, as the one before it.
  static constexpr size_t kStepsBefore = 2;

  void see(const CallRecord& event, FieldValues values) {
    if (!event.enter_lost && event.enter >= starts_.front() &&
        event.enter < starts_[starts_.size() - kStepsBefore] && allocates(event, values)) {
      in_steps_.insert(line_of(event.stack));
    }
  }
  bool allocates(const CallRecord& event, FieldValues values) const {
    const CallSchema* const schema = schema_of(trace_, event.call);
    const bool is_block =
        schema != nullptr && schema->kind == "tensor-block" &&
        static_cast<int64_t>(field_value(values, *schema, "change").value_or(0)) > 0;
    return is_block || (schema != nullptr && schema->kind == "alloc");
  }
  bool is_of_steps(uint32_t stack) {
    return starts_.size() <= kStepsBefore || in_steps_.contains(line_of(stack));
  }
  // By the line of the job alone: larger tensors come by other functions of PyTorch, and a larger
  // batch from another place of the job.  Empty: of threads without one, as autograd's.
  std::string line_of(uint32_t stack) {
    const auto [found, is_new] = lines_.try_emplace(stack);
    found->second = is_new ? place_before(trace_, stack) : found->second;
    return found->second;
  }
  bool is_workspace(uint32_t stack, uint64_t bytes) {
    const auto [found, is_new] = workspaces_.emplace(std::pair(stack, bytes), false);
    found->second = is_new ? is_cublas_workspace(trace_, stack, bytes) : found->second;
    return found->second;
  }

  const ProcessTrace& trace_;
  const GrowthJudge growth_;
  bool has_births_ = false;  // else no block's age is known, not even that it is older
  std::map<std::pair<uint32_t, uint64_t>, bool> workspaces_;  // by stack and bytes
  std::vector<uint32_t> growing_;                             // paths
  std::vector<TimeNs> starts_;                                // of steps, until the failure
  std::map<uint32_t, std::string> lines_;                     // by stack
  std::set<std::string> in_steps_;              // lines that allocated in steps before the last
  std::optional<TimeNs> first_optimizer_step_;  // that did not fit
};

}  // namespace

std::string place_before(const ProcessTrace& trace, uint32_t after) {
  const auto place = after == 0 ? std::nullopt : user_place(trace, {0}, after);
  return place ? place_text(*place) : "";
}

const char* name_of(MemoryRole role) {
  constexpr const char* kNames[] = {
      "",
      "optimizer state",
      "more with each step",
      "cuBLAS workspace, one for each thread and stream",
      "kept since the first step (typical of weights and optimizer state)",
      "kept for more than a step",
      "gradients",
      "made in the last step (typical of activations)",
      "made in the last step or since, and in none before it"};
  return kNames[static_cast<size_t>(role)];
}

bool is_left_by_steps(const MemoryHolder& holder) {
  return holder.role == MemoryRole::kKept && holder.steps.size() >= kFewestCopies;
}

std::vector<MemoryHolder> holders_at(const ProcessTrace& trace, const MemoryHistory& history,
                                     const OutOfMemoryText& failure) {
  Roles roles(trace, history, failure);
  const std::vector<BlockBirth> births = births_of(trace, failure);
  std::map<std::tuple<std::string, std::string, PlaceIs, MemoryRole, Owner, std::string>,
           MemoryHolder>
      holders;
  const DeviceOfFailure device(trace, failure);
  std::vector<uint32_t> stacks;
  for (const HeldBlockText& block : failure.held) {
    stacks.push_back(block.stack);
  }
  const HelperCallers callers(trace, stacks);
  for (size_t i = 0; i < failure.held.size(); ++i) {
    const HeldBlockText& block = failure.held[i];
    const bool tensor = is_block_report(trace, block.call);
    const auto kind =
        tensor ? std::optional(MemoryKind::kTensor) : kind_of_call(call_name(trace, block.call));
    const Owner owner = tensor ? Owner::kTorch : owner_of(trace, block.stack);
    if (!device.has(block) || !kind || (!tensor && !on_device(*kind)) ||
        (!tensor && owner == Owner::kTorch && counts_by_blocks(trace, failure))) {
      continue;
    }
    MemoryHolder holder;
    const auto place = is_library(owner) ? std::nullopt : user_place(trace, {0}, block.stack);
    if (place) {
      holder.place = place_text(*place);
      holder.caller = callers.of(block.stack);
    } else if (tensor) {
      holder.place = place_before(trace, births[i].after);
      holder.place_is = PlaceIs::kBefore;
    }
    holder.role = is_library(owner) ? MemoryRole::kUnknown
                                    : roles.of(block.stack, births[i].time, block.bytes);
    holder.owner = owner;
    holder.library = is_library(owner) ? library_name(trace, owner, block.stack) : "";
    if (holder.role == MemoryRole::kWorkspace) {  // the line that multiplied first does not hold it
      holder.place.clear();
      holder.caller.clear();
      holder.place_is = PlaceIs::kOwn;
    }
    MemoryHolder& sum = holders
                            .try_emplace({holder.place, holder.caller, holder.place_is, holder.role,
                                          owner, holder.library},
                                         holder)
                            .first->second;
    sum.bytes = sum_of(sum.bytes, block.bytes);
    ++sum.blocks;
    if (holder.role == MemoryRole::kKept) {
      sum.steps.insert(roles.step_of(births[i].time));
    }
  }
  std::vector<MemoryHolder> sorted;
  sorted.reserve(holders.size());
  for (auto& [key, holder] : holders) {
    sorted.push_back(std::move(holder));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const MemoryHolder& a, const MemoryHolder& b) { return a.bytes > b.bytes; });
  return sorted;
}

}  // namespace traintrace
