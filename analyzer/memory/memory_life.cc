#include "analyzer/memory/memory_life.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "analyzer/memory/memory_sources.h"

namespace traintrace {
namespace {

// Blocks by address, which do not overlap.
class Blocks {
 public:
  const LiveBlock* find(uint64_t address) const {
    const auto found = blocks_.find(address);
    return found == blocks_.end() ? nullptr : &found->second;
  }
  bool add(const LiveBlock& block) {
    constexpr uint64_t kHighest = uint64_t{1} << 57;  // more than any address of any machine
    if (block.bytes == 0 || block.bytes > kHighest || block.address > kHighest) {
      return false;
    }
    const auto next = blocks_.lower_bound(block.address);
    if ((next != blocks_.end() && next->first < block.address + block.bytes) ||
        (next != blocks_.begin() &&
         std::prev(next)->first + std::prev(next)->second.bytes > block.address)) {
      return false;
    }
    blocks_.emplace_hint(next, block.address, block);
    return true;
  }
  void erase(uint64_t address) { blocks_.erase(address); }
  std::vector<LiveBlock> within(uint64_t address, uint64_t bytes) const {
    std::vector<LiveBlock> found;
    for (auto at = blocks_.lower_bound(address); at != blocks_.end() && at->first - address < bytes;
         ++at) {
      found.push_back(at->second);
    }
    return found;
  }
  void append_to(std::vector<LiveBlock>& all) const {
    for (const auto& [address, block] : blocks_) {
      all.push_back(block);
    }
  }

 private:
  std::map<uint64_t, LiveBlock> blocks_;
};

// One address may mean several things at a time.
using World = std::map<std::tuple<AddressSpace, int>, Blocks>;
std::tuple<AddressSpace, int> key_of(const MemoryStep& step) {
  // Each device may have its own addresses in other tools' files.
  return {step.space, step.space == AddressSpace::kBlock ? step.block.device : 0};
}

std::vector<LiveBlock> all_of(const World& world) {
  std::vector<LiveBlock> all;
  for (const auto& [key, blocks] : world) {
    blocks.append_to(all);
  }
  std::stable_sort(all.begin(), all.end(), [](const LiveBlock& a, const LiveBlock& b) {
    return std::tie(a.holder, a.device, a.address) < std::tie(b.holder, b.device, b.address);
  });
  return all;
}

// What a free gave back is known from what was taken: its steps become one for each block.
std::vector<MemoryStep> completed(const std::vector<MemoryStep>& steps, World& world) {
  std::vector<MemoryStep> done;
  for (const MemoryStep& step : steps) {
    Blocks& blocks = world[key_of(step)];
    if (step.taken) {
      const LiveBlock* const stale = blocks.find(step.block.address);
      if (stale != nullptr) {  // its free was not recorded
        blocks.erase(step.block.address);
      }
      blocks.add(step.block);
      done.push_back(step);
      continue;
    }
    const std::vector<LiveBlock> gone = blocks.within(step.block.address, step.range);
    for (const LiveBlock& block : gone) {
      blocks.erase(block.address);
      done.push_back(step);
      done.back().block = block;
    }
    if (gone.empty() && step.block.bytes != 0) {
      done.push_back(step);
    }
  }
  return done;
}

// Into the past, from what is there at the end.
std::vector<MemoryEvent> undone(const std::vector<MemoryStep>& steps, World& world) {
  std::vector<MemoryEvent> events;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    Blocks& blocks = world[key_of(*step)];
    const LiveBlock* const there = blocks.find(step->block.address);
    if (!step->taken) {
      if (!blocks.add(step->block)) {
        continue;
      }
    } else if (there == nullptr || there->bytes != step->block.bytes) {
      continue;
    }
    MemoryEvent event{step->time, step->stack, step->taken, step->block};
    if (step->taken) {
      event.block = *there;
      blocks.erase(step->block.address);
    }
    events.push_back(event);
  }
  std::reverse(events.begin(), events.end());
  return events;
}

}  // namespace

MemoryLife memory_life(const ProcessTrace& trace) {
  MemorySources sources(trace);
  World world;
  for (const MemoryStep& step : sources.live()) {
    world[key_of(step)].add(step.block);
  }
  World by_events;
  const std::vector<MemoryStep> steps = completed(sources.steps(), by_events);
  if (sources.tables_were_full()) {
    for (const auto& [key, blocks] : by_events) {
      std::vector<LiveBlock> all;
      blocks.append_to(all);
      for (const LiveBlock& block : all) {
        world[key].add(block);
      }
    }
  }
  MemoryLife life;
  life.live = all_of(world);
  life.events = undone(steps, world);
  life.before = all_of(world);
  return life;
}

}  // namespace traintrace
