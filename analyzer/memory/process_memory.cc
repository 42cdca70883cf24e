#include "analyzer/memory/process_memory.h"

#include <algorithm>
#include <unordered_set>

#include "analyzer/memory/growth/growing_places.h"
#include "analyzer/memory/growth/growth.h"
#include "analyzer/memory/memory_use.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/reader/sections/stored_reports.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

constexpr size_t kMostStacks = 64;
constexpr size_t kMostPlaces = 1024;  // from which PyTorch's allocator was called

bool has_loss(const ProcessTrace& trace, std::string_view stat) {
  return std::any_of(trace.losses.begin(), trace.losses.end(),
                     [&](const LossText& loss) { return loss.stat == stat && loss.count != 0; });
}

// More than a job needs: they may be created with every step.
bool has_many_streams(const ProcessTrace& trace) {
  return static_cast<size_t>(std::count_if(
             trace.streams.begin(), trace.streams.end(), [](const StreamText& stream) {
               return (stream.flags & (format::kImplicit | format::kStreamDestroyed)) == 0 &&
                      stream.created != 0;
             })) >= kFewestCopies;
}

std::vector<uint32_t> stacks_of_allocator(const ProcessTrace& trace) {
  std::unordered_set<uint32_t> stacks;
  if (!trace.tensor_devices.empty()) {
    AllocatorEvents(trace).each([&](const AllocatorEvent& event) {
      if (stacks.size() < kMostPlaces) {
        stacks.insert(event.stack);
      }
    });
  }
  return {stacks.begin(), stacks.end()};
}

// Of what may have grown and is not live any more: those that held most.
void add_stacks_that_gathered(const ProcessTrace& trace, const MemoryHistory& history,
                              std::vector<uint32_t>& stacks) {
  const GrowthJudge judge(trace, history);
  std::vector<std::pair<uint64_t, uint32_t>> gathered;
  for (const auto& [stack, memory] : judge.series()) {
    if (has_gathered(memory)) {
      gathered.emplace_back(memory.last_bytes, stack);
    }
  }
  std::sort(gathered.rbegin(), gathered.rend());
  for (size_t i = 0; i < std::min(gathered.size(), kMostStacks); ++i) {
    stacks.push_back(gathered[i].second);
  }
}

// Of what is known from events alone.
void add_stacks_of_use(const ProcessTrace& trace, std::vector<uint32_t>& stacks) {
  for (const auto& [device, use] : first_uses_of_devices(trace)) {
    stacks.push_back(use->stack);
  }
  std::unordered_set<uint32_t> foreign;
  for (const ForeignUse& use : foreign_uses(trace)) {
    if (foreign.size() < kMostStacks) {
      foreign.insert({use.stack, use.allocated});
    }
  }
  for (const PinnedUse& use : pinned_uses(trace)) {
    if (foreign.size() < 2 * kMostStacks) {
      foreign.insert(use.stack);
    }
  }
  stacks.insert(stacks.end(), foreign.begin(), foreign.end());
}

}  // namespace

RunMemory memory_of(const Run& run) {
  RunMemory memory;
  for (const ProcessTrace& trace : run.processes) {
    ProcessMemory& process = memory.processes.emplace_back();
    process.live = live_groups(trace);
    process.tensors = tensor_groups(trace);
    if (has_events(trace)) {
      process.history = history_of(trace);
      process.allocators = allocator_histories(trace);
      set_growth_aside(trace, *process.history, process.allocators);
    }
  }
  return memory;
}

bool asks_for_events(const ProcessTrace& trace) {
  if (has_many_streams(trace) || has_loss(trace, "unknown-free") || trace.exit_status != 0 ||
      !trace.tensor_devices.empty()) {
    return true;
  }
  const std::vector<BlockGroup> live = live_groups(trace);
  return std::any_of(live.begin(), live.end(),
                     [](const BlockGroup& group) { return group.owner == Owner::kJob; });
}

std::vector<uint32_t> stacks_of_memory(const ProcessTrace& trace) {
  std::vector<uint32_t> stacks;
  for (const std::vector<BlockGroup>& groups : {live_groups(trace), tensor_groups(trace)}) {
    for (size_t i = 0; i < std::min(groups.size(), kMostStacks); ++i) {
      stacks.push_back(groups[i].stack);
    }
  }
  for (const OutOfMemoryText& failure : trace.out_of_memory) {
    stacks.push_back(failure.stack);
  }
  if (!has_events(trace)) {
    return stacks;
  }
  const std::vector<uint32_t> places = stacks_of_allocator(trace);
  stacks.insert(stacks.end(), places.begin(), places.end());
  const MemoryHistory history = history_of(trace);
  add_stacks_that_gathered(trace, history, stacks);
  for (size_t i = 0; i < std::min(history.handles.size(), kMostStacks); ++i) {
    stacks.push_back(history.handles[i].stack);
  }
  for (size_t i = 0; i < std::min(history.bad_frees.size(), kMostStacks); ++i) {
    stacks.insert(stacks.end(), {history.bad_frees[i].stack, history.bad_frees[i].first_stack});
  }
  add_stacks_of_use(trace, stacks);
  return stacks;
}

}  // namespace traintrace
