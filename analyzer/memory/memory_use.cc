#include "analyzer/memory/memory_use.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <optional>

#include "analyzer/memory/blocks.h"
#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

bool succeeded(const CallRecord& event) {
  return event.returned && event.result == 0 && !event.enter_lost && !event.moment;
}

bool is_work(const CallSchema& schema) {
  return schema.kind == "launch" || schema.kind == "graph-launch" || schema.kind == "collective";
}

bool makes_context(const CallSchema& schema) {
  return schema.kind == "alloc" || schema.kind == "launch" || schema.kind == "copy" ||
         schema.kind == "set";
}

template <class Block>
typename std::map<uint64_t, Block>::iterator around(std::map<uint64_t, Block>& blocks,
                                                    uint64_t address) {
  const auto next = blocks.upper_bound(address);
  if (next == blocks.begin() || address - std::prev(next)->first >= std::prev(next)->second.bytes) {
    return blocks.end();
  }
  return std::prev(next);
}

TimeNs last_work(const ProcessTrace& trace) {
  TimeNs last = 0;
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema = schema_of(trace, event.call);
    last = schema != nullptr && is_work(*schema) ? event.enter : last;
  }
  return last;
}

struct DeviceBlock {
  uint64_t bytes = 0;
  int device = -1;
  uint32_t stack = 0;
};

// Where a call uses or gives back memory: by its first byte.
std::optional<uint64_t> used_address(const ProcessTrace& trace, const CallRecord& event,
                                     const CallSchema& schema) {
  return schema.kind == "free"  ? value_of(trace, event, "address")
         : schema.kind == "set" ? value_of(trace, event, "to")
                                : std::nullopt;
}

}  // namespace

std::vector<ForeignUse> foreign_uses(const ProcessTrace& trace) {
  std::vector<ForeignUse> uses;
  std::map<uint64_t, DeviceBlock> blocks;
  const TimeNs end = last_work(trace);
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema = schema_of(trace, event.call);
    if (schema == nullptr || !succeeded(event) || event.device == format::kNoDevice) {
      continue;
    }
    if (schema->kind == "alloc" && kind_of_call(schema->name) == MemoryKind::kDevice) {
      const auto address = value_of(trace, event, "address");
      const auto bytes = value_of(trace, event, "bytes");
      if (address && bytes && *address != 0) {
        blocks[*address] = {*bytes, event.device, event.stack};
      }
      continue;
    }
    const auto address = used_address(trace, event, *schema);
    const auto block = address ? around(blocks, *address) : blocks.end();
    if (block == blocks.end()) {
      continue;
    }
    if (block->second.device != event.device && event.enter < end &&
        owner_of(trace, event.stack) == Owner::kJob) {
      uses.push_back({event.call, event.stack, event.enter, block->first, block->second.bytes,
                      event.device, block->second.device, block->second.stack,
                      schema->kind == "free"});
    }
    if (schema->kind == "free") {
      blocks.erase(block);
    }
  }
  return uses;
}

std::map<int, const CallRecord*> first_uses_of_devices(const ProcessTrace& trace) {
  std::map<int, const CallRecord*> first;
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema = succeeded(event) ? schema_of(trace, event.call) : nullptr;
    if (schema != nullptr && event.device != format::kNoDevice && makes_context(*schema)) {
      first.try_emplace(event.device, &event);
    }
  }
  return first;
}

namespace {

struct PinnedBlock {
  uint64_t bytes = 0;
  uint64_t used = 0;
  uint32_t stack = 0;
  bool unclear = false;  // a call used it whose reach is not known, or copies reach differently far
};

void note_copy(const ProcessTrace& trace, const CallRecord& event,
               std::map<uint64_t, PinnedBlock>& blocks) {
  const auto bytes = value_of(trace, event, "bytes");
  const bool rows = value_of(trace, event, "pitch") || value_of(trace, event, "height");
  for (const char* const field : {"from", "to", "address"}) {
    const auto address = value_of(trace, event, field);
    const auto block = address ? around(blocks, *address) : blocks.end();
    if (block != blocks.end()) {
      PinnedBlock& used = block->second;
      const uint64_t reach = sum_of(*address - block->first, bytes.value_or(0));
      used.unclear = used.unclear || !bytes || rows || (used.used != 0 && used.used != reach);
      used.used = std::max(used.used, reach);
    }
  }
}

}  // namespace

std::vector<PinnedUse> pinned_uses(const ProcessTrace& trace) {
  std::vector<PinnedUse> uses;
  std::map<uint64_t, PinnedBlock> blocks;
  const auto done = [&](const PinnedBlock& block) {
    // Half of it or less needed no block as large.
    const bool is_rounded = std::has_single_bit(block.bytes) && block.used > block.bytes / 2;
    if (is_rounded && !block.unclear) {
      uses.push_back({block.stack, block.bytes, std::min(block.used, block.bytes)});
    }
  };
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema = schema_of(trace, event.call);
    if (schema == nullptr || !succeeded(event)) {
      continue;
    }
    const auto address = value_of(trace, event, "address");
    if (schema->kind == "alloc" && kind_of_call(schema->name) == MemoryKind::kPinned && address) {
      blocks[*address] = {value_of(trace, event, "bytes").value_or(0), 0, event.stack};
    } else if (schema->kind == "free" && address) {
      if (const auto block = blocks.find(*address); block != blocks.end()) {
        done(block->second);
        blocks.erase(block);
      }
    } else if (schema->kind == "copy" || schema->kind == "set") {
      note_copy(trace, event, blocks);
    }
  }
  for (const auto& [address, block] : blocks) {
    done(block);
  }
  return uses;
}

}  // namespace traintrace
