#include "analyzer/memory/holders/held_bytes.h"

#include <algorithm>

#include "analyzer/memory/growth/growth.h"

namespace traintrace {
namespace {

constexpr int kHost = -2;

int place_of(const LiveBlock& block) {
  return on_device(block.kind) ? block.device : kHost;
}

struct Peak {
  uint64_t now = 0;
  uint64_t most = 0;
  size_t at = 0;  // so many events later than the first
  uint64_t blocks_now = 0;
  uint64_t most_blocks = 0;  // of PyTorch's allocator alone
};

void add(Peak& peak, const LiveBlock& block, bool taken, size_t at) {
  const uint64_t bytes = taken ? block.bytes : uint64_t{0} - block.bytes;
  peak.now += bytes;
  if (peak.now > peak.most) {
    peak.most = peak.now;
    peak.at = at;
  }
  if (block.holder == Holder::kBlock) {
    peak.blocks_now += bytes;
    peak.most_blocks = std::max(peak.most_blocks, peak.blocks_now);
  }
}

std::map<int, Peak> peaks_of(const MemoryLife& life) {
  std::map<int, Peak> peaks;
  for (const LiveBlock& block : life.before) {
    if (is_in_use(block)) {
      add(peaks[place_of(block)], block, true, 0);
    }
  }
  for (size_t i = 0; i < life.events.size(); ++i) {
    const LiveBlock& block = life.events[i].block;
    if (is_in_use(block)) {
      add(peaks[place_of(block)], block, life.events[i].taken, i + 1);
    }
  }
  return peaks;
}

// What was overwritten may have had a higher one; PyTorch's own is in the tables.
bool is_known(const ProcessTrace& trace, int place, const Peak& peak) {
  const auto device =
      std::find_if(trace.tensor_devices.begin(), trace.tensor_devices.end(),
                   [&](const TensorDeviceText& each) { return each.device == place; });
  if (device != trace.tensor_devices.end()) {
    return device->peak_allocated == peak.most_blocks;
  }
  return !trace.events.empty() && trace.errors.empty() &&
         std::none_of(trace.losses.begin(), trace.losses.end(), [](const LossText& loss) {
           return loss.count != 0 &&
                  (loss.stat == "ring-overwritten" || loss.severity == "warning");
         });
}

void add_peaks(const ProcessTrace& trace, const MemoryLife& life,
               std::map<uint32_t, HeldBytes>& held) {
  std::map<int, Peak> peaks = peaks_of(life);
  std::erase_if(peaks, [&](const auto& peak) { return !is_known(trace, peak.first, peak.second); });
  const auto count = [&](const LiveBlock& block, bool taken, size_t at) {
    const auto peak = is_in_use(block) ? peaks.find(place_of(block)) : peaks.end();
    if (peak == peaks.end() || at > peak->second.at) {
      return;
    }
    HeldBytes& of_stack = held[block.stack];
    of_stack.like = of_stack.like.bytes == 0 ? block : of_stack.like;
    of_stack.peak = of_stack.peak.value_or(0) + (taken ? block.bytes : uint64_t{0} - block.bytes);
  };
  for (const LiveBlock& block : life.before) {
    count(block, true, 0);
  }
  for (size_t i = 0; i < life.events.size(); ++i) {
    count(life.events[i].block, life.events[i].taken, i + 1);
  }
  for (auto& [stack, of_stack] : held) {
    if (peaks.contains(place_of(of_stack.like))) {
      of_stack.peak = of_stack.peak.value_or(0);
    }
  }
}

void add_growth(const ProcessTrace& trace, const MemoryLife& life,
                std::map<uint32_t, HeldBytes>& held) {
  if (trace.events.empty()) {
    return;
  }
  const MemoryHistory history = history_of(trace);
  if (history.steps.count() == 0) {
    return;
  }
  const GrowthJudge judge(trace, history);
  std::map<uint32_t, BlockGroup> groups;  // by path
  std::map<uint32_t, TimeNs> newest;
  for (const LiveBlock& block : life.live) {
    if (is_in_use(block)) {
      const uint32_t path = judge.path_of(block.stack);
      BlockGroup& group = groups[path];
      // What grew is told of one stack, that of the newest block.
      group.stack = block.time >= newest[path] ? block.stack : group.stack;
      newest[path] = std::max(newest[path], block.time);
      group.bytes = sum_of(group.bytes, block.bytes);
      group.blocks.emplace_back(block.time, block.bytes);
    }
  }
  for (auto& [stack, of_stack] : held) {
    of_stack.growth_per_step = 0;
  }
  for (auto& [path, group] : groups) {
    std::sort(group.blocks.begin(), group.blocks.end());
    const std::optional<Growth> growth = judge.growth_of(group);
    held[group.stack].growth_per_step = growth ? growth->bytes_per_step : 0;
  }
}

}  // namespace

std::map<uint32_t, HeldBytes> held_bytes(const ProcessTrace& trace) {
  const MemoryLife life = memory_life(trace);
  std::map<uint32_t, HeldBytes> held;
  for (const LiveBlock& block : life.live) {
    if (is_in_use(block)) {
      HeldBytes& of_stack = held[block.stack];
      of_stack.like = of_stack.live == 0 ? block : of_stack.like;
      of_stack.live = sum_of(of_stack.live, block.bytes);
    }
  }
  add_peaks(trace, life, held);
  add_growth(trace, life, held);
  return held;
}

}  // namespace traintrace
