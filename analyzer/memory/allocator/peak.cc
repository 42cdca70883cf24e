#include "analyzer/memory/allocator/peak.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace traintrace {
namespace {

using UsedBlocks = std::unordered_map<uint64_t, UsedBlock>;  // by address

bool is_report(const AllocatorEvent& event, const AllocatorHistory& history) {
  return event.device == history.device &&
         (event.act == AllocatorAct::kTake || event.act == AllocatorAct::kGive);
}

// Those older than the records included.
UsedBlocks blocks_at_peak(const ProcessTrace& trace, const AllocatorHistory& history) {
  const TimeNs begin = first_event(trace);
  UsedBlocks blocks;
  for (const TensorBlockText& block : trace.tensor_blocks) {
    if (block.time < begin && block.device == history.device) {
      blocks[block.address] = {block.bytes, block.time, block.stack};
    }
  }
  AllocatorEvents(trace).each([&](const AllocatorEvent& event) {
    if (!is_report(event, history) || event.time > history.peak_time) {
      return;
    }
    if (event.act == AllocatorAct::kTake) {
      blocks[event.address] = {event.bytes, event.time, event.stack};
    } else {
      blocks.erase(event.address);
    }
  });
  return blocks;
}

// When these, which were in use at the peak, were freed, by address.
std::unordered_map<uint64_t, TimeNs> freed_behind_peak(const ProcessTrace& trace,
                                                       const AllocatorHistory& history,
                                                       const UsedBlocks& blocks) {
  std::unordered_map<uint64_t, TimeNs> freed;
  AllocatorEvents(trace).each([&](const AllocatorEvent& event) {
    if (is_report(event, history) && event.act == AllocatorAct::kGive &&
        event.time > history.peak_time && blocks.contains(event.address)) {
      freed.try_emplace(event.address, event.time);
    }
  });
  return freed;
}

// In use at the peak, and no other of the same stack.
UsedBlocks lone_blocks(const ProcessTrace& trace, const AllocatorHistory& history) {
  UsedBlocks blocks = blocks_at_peak(trace, history);
  std::unordered_map<uint32_t, size_t> alike;  // by stack
  for (const auto& [address, block] : blocks) {
    ++alike[block.stack];
  }
  std::erase_if(blocks, [&](const auto& entry) {
    return entry.second.stack == 0 || alike[entry.second.stack] != 1;
  });
  return blocks;
}

uint64_t peak_without(const ProcessTrace& trace, const AllocatorHistory& history, uint32_t stack) {
  std::unordered_map<uint64_t, uint64_t> live;  // of that stack
  uint64_t bytes = 0;
  uint64_t peak = 0;
  AllocatorEvents(trace).each([&](const AllocatorEvent& event) {
    if (!is_report(event, history)) {
      return;
    }
    if (event.act == AllocatorAct::kTake && event.stack == stack) {
      live[event.address] = event.bytes;
      bytes += event.bytes;
    } else if (const auto block = live.find(event.address); block != live.end()) {
      bytes -= block->second;
      live.erase(block);
    }
    peak = std::max(peak, event.allocated - std::min(event.allocated, bytes));
  });
  return peak;
}

}  // namespace

std::vector<std::pair<uint32_t, uint64_t>> held_at_peak(const ProcessTrace& trace,
                                                        const AllocatorHistory& history) {
  std::map<uint32_t, uint64_t> bytes;
  for (const auto& [address, block] : blocks_at_peak(trace, history)) {
    bytes[block.stack] += block.bytes;
  }
  std::vector<std::pair<uint32_t, uint64_t>> sorted(bytes.begin(), bytes.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

std::optional<Spike> spike_of(const ProcessTrace& trace, const AllocatorHistory& history,
                              const MemoryHistory& of_process) {
  const UsedBlocks blocks = lone_blocks(trace, history);
  const auto freed = freed_behind_peak(trace, history, blocks);
  Spike spike;
  for (const auto& [address, block] : blocks) {
    const auto end = freed.find(address);
    const bool brief = end != freed.end() && of_process.steps.count() != 0 &&
                       of_process.step_at(end->second) <= of_process.step_at(block.time) + 1;
    if (brief && std::pair(block.bytes, spike.taken) > std::pair(spike.bytes, block.time)) {
      spike = {block.stack, block.bytes, block.time, end->second, 0};
    }
  }
  if (spike.bytes == 0) {
    return std::nullopt;
  }
  spike.without = peak_without(trace, history, spike.stack);
  return spike;
}

}  // namespace traintrace
