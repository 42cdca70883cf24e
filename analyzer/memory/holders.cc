#include "analyzer/memory/holders.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/memory/growth.h"
#include "analyzer/model/activity.h"
#include "analyzer/model/code_place.h"

namespace traintrace {
namespace {

bool is_block_report(const ProcessTrace& trace, uint32_t call) {
  const CallSchema* schema = schema_of(trace, call);
  return schema != nullptr && schema->kind.starts_with("tensor-");
}

bool is_of_optimizer(const ProcessTrace& trace, uint32_t stack) {
  const auto found = trace.stacks.find(stack);
  return found != trace.stacks.end() &&
         std::any_of(found->second.python.begin(), found->second.python.end(),
                     [](const PythonFrameText& frame) {
                       return frame.file.find("torch/optim/") != frame.file.npos;
                     });
}

class Roles {
 public:
  Roles(const ProcessTrace& trace, const MemoryHistory& history)
      : trace_(trace), history_(history), judge_(trace, history) {
    for (const GrowingGroup& growing : judge_.growing()) {
      growing_.push_back(growing.group.stack);
    }
  }

  MemoryRole of(uint32_t stack) {
    const auto [found, is_new] = known_.emplace(stack, MemoryRole::kUnknown);
    if (is_new) {
      found->second = look_at(stack);
    }
    return found->second;
  }

 private:
  MemoryRole look_at(uint32_t stack) const {
    if (std::find(growing_.begin(), growing_.end(), stack) != growing_.end()) {
      return MemoryRole::kGrowing;
    }
    const auto series = judge_.series().find(stack);
    const std::vector<TimeNs>& starts = history_.steps.starts;
    const bool has_steps = series != judge_.series().end() && starts.size() > 1;
    // What the optimizer makes for a moment is no state.
    const bool is_kept =
        has_steps && (series->second.last < starts[1] ||
                      left_blocks(series->second) * 2 >= series->second.last_blocks);
    if (is_of_optimizer(trace_, stack) && (is_kept || !has_steps)) {
      return MemoryRole::kOptimizer;
    }
    return !has_steps ? MemoryRole::kUnknown : is_kept ? MemoryRole::kState : MemoryRole::kPassing;
  }

  static uint64_t left_blocks(const StackMemoryText& memory) {
    uint64_t blocks = 0;
    for (const LeftOver& each : left_over(memory)) {
      blocks += each.blocks;
    }
    return blocks;
  }

  const ProcessTrace& trace_;
  const MemoryHistory& history_;
  const GrowthJudge judge_;
  std::vector<uint32_t> growing_;  // stacks
  std::map<uint32_t, MemoryRole> known_;
};

}  // namespace

const char* name_of(MemoryRole role) {
  constexpr const char* kNames[] = {"", "optimizer state", "more with every step",
                                    "kept since the first step, as weights are",
                                    "comes and goes with each step, as activations do"};
  return kNames[static_cast<size_t>(role)];
}

std::vector<MemoryHolder> holders_at(const ProcessTrace& trace, const MemoryHistory& history,
                                     const OutOfMemoryText& failure) {
  Roles roles(trace, history);
  std::map<std::tuple<std::string, MemoryRole, Owner>, MemoryHolder> holders;
  for (const HeldBlockText& block : failure.held) {
    const bool tensor = is_block_report(trace, block.call);
    const auto kind =
        tensor ? std::optional(MemoryKind::kTensor) : kind_of_call(call_name(trace, block.call));
    const Owner owner = tensor ? Owner::kTorch : owner_of(trace, block.stack);
    if (block.device != failure.device || !kind || (!tensor && !on_device(*kind)) ||
        (!tensor && owner == Owner::kTorch && failure.reserved != 0)) {
      continue;
    }
    MemoryHolder holder;
    const auto place = is_library(owner) ? std::nullopt : user_place(trace, {0}, block.stack);
    holder.place = place ? place_text(*place) : "";
    holder.role = is_library(owner) ? MemoryRole::kUnknown : roles.of(block.stack);
    holder.owner = owner;
    MemoryHolder& sum =
        holders.try_emplace({holder.place, holder.role, owner}, holder).first->second;
    sum.bytes = sum_of(sum.bytes, block.bytes);
    ++sum.blocks;
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
