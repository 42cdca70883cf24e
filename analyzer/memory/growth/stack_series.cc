#include "analyzer/memory/growth/stack_series.h"

#include <algorithm>

namespace traintrace {
namespace {

constexpr size_t kMostSamples = 1024;

void join_samples(StackMemoryText& memory) {
  std::vector<MemorySampleText> joined;
  for (size_t i = 0; i + 1 < memory.samples.size(); i += 2) {
    const MemorySampleText& a = memory.samples[i];
    const MemorySampleText& b = memory.samples[i + 1];
    joined.push_back({a.time, std::min(a.bytes, b.bytes), std::min(a.blocks, b.blocks),
                      std::max(a.most_blocks, b.most_blocks)});
  }
  memory.samples = std::move(joined);
  memory.stride *= 2;
}

// Before each sample, what is not freed until the newest allocation.
std::vector<MemorySampleText> lasting(const StackMemoryText& memory) {
  std::vector<MemorySampleText> least = memory.samples;
  for (size_t i = least.size(); i-- > 1;) {
    least[i - 1].bytes = std::min(least[i - 1].bytes, least[i].bytes);
    least[i - 1].blocks = std::min(least[i - 1].blocks, least[i].blocks);
  }
  return least;
}

}  // namespace

void SeriesBuilder::add(const Allocation& allocation) {
  StackMemoryText& memory = series_[allocation.stack];
  Open& open = open_[allocation.stack];
  if (memory.allocations == 0) {
    memory.stack = allocation.stack;
    memory.call = allocation.call;
    memory.device = allocation.device;
    memory.stride = 1;
  }
  if (!memory.samples.empty() && open.in_sample < memory.stride) {
    MemorySampleText& newest = memory.samples.back();
    ++open.in_sample;
    newest.bytes = std::min(newest.bytes, memory.bytes);
    newest.blocks = std::min(newest.blocks, memory.blocks);
  } else {
    if (memory.samples.size() == kMostSamples) {
      join_samples(memory);
    }
    memory.samples.push_back({allocation.time, memory.bytes, memory.blocks});
    open.in_sample = 1;
  }
  ++memory.allocations;
  memory.bytes += allocation.bytes;
  ++memory.blocks;
  MemorySampleText& sample = memory.samples.back();
  sample.most_blocks = std::max(sample.most_blocks, memory.blocks);
  memory.newest = allocation.bytes;
  if (allocation.bytes > memory.largest) {
    memory.largest = allocation.bytes;
    ++memory.enlargings;
  }
  memory.last = allocation.time;
  memory.last_bytes = memory.bytes;
  memory.last_blocks = memory.blocks;
}

void SeriesBuilder::remove(uint32_t stack, uint64_t bytes) {
  const auto found = series_.find(stack);
  if (found != series_.end() && found->second.blocks != 0) {
    found->second.bytes -= std::min(bytes, found->second.bytes);
    --found->second.blocks;
  }
}

void SeriesBuilder::count_frees() {
  for (auto& [stack, memory] : series_) {
    MemorySampleText& newest = memory.samples.back();  // one is made with each stack
    newest.bytes = std::min(newest.bytes, memory.bytes);
    newest.blocks = std::min(newest.blocks, memory.blocks);
  }
}

std::vector<LeftOver> left_over(const StackMemoryText& memory) {
  const std::vector<MemorySampleText> least = lasting(memory);
  std::vector<LeftOver> left;
  for (size_t i = 1; i < least.size(); ++i) {
    const uint64_t blocks = least[i].blocks - least[i - 1].blocks;
    if (blocks != 0) {
      left.push_back({least[i - 1].time, least[i].bytes - least[i - 1].bytes, blocks});
    }
  }
  return left;
}

Earlier earlier_than(const StackMemoryText& memory, TimeNs time) {
  Earlier earlier;
  for (size_t i = 0; i < memory.samples.size() && memory.samples[i].time < time; ++i) {
    const MemorySampleText& sample = memory.samples[i];
    const bool is_whole = i + 1 < memory.samples.size() && memory.samples[i + 1].time <= time;
    // Later blocks are in the sample that the time divides.
    const uint64_t most = is_whole ? sample.most_blocks : sample.blocks + 1;
    earlier.most_blocks = std::max(earlier.most_blocks, most);
    earlier.allocations += is_whole ? memory.stride : 1;
  }
  return earlier;
}

std::vector<LeftOver> added_to_one(const StackMemoryText& memory) {
  const std::vector<MemorySampleText> least = lasting(memory);
  std::vector<LeftOver> added;
  for (size_t i = 1; i < least.size(); ++i) {
    if (least[i].blocks != 1) {
      return {};
    }
    if (least[i].bytes > least[i - 1].bytes) {
      added.push_back({least[i - 1].time, least[i].bytes - least[i - 1].bytes, 1});
    }
  }
  return added;
}

}  // namespace traintrace
