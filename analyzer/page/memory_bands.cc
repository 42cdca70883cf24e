#include "analyzer/page/memory_bands.h"

#include "analyzer/memory/holders/owner_text.h"
#include "analyzer/page/page_data.h"

namespace traintrace {

MemoryBands::MemoryBands(const ProcessTrace& trace, Rank rank, const std::vector<uint32_t>& stacks)
    : trace_(trace), rank_(rank), callers_(trace, stacks) {}

std::string MemoryBands::of(const LiveBlock& block) const {
  const std::string place = page_place(trace_, rank_, block.stack);
  if (is_library(block.owner) || place.empty()) {
    return owner_text(trace_, block);
  }
  const std::string caller = callers_.of(block.stack);
  return caller.empty() ? place : place + ", called from " + caller;
}

std::vector<uint32_t> stacks_on(const MemoryLife& life, const OutOfMemoryText* failure,
                                int device) {
  std::vector<uint32_t> stacks;
  const auto add = [&](const LiveBlock& block) {
    if (block.device == device && !is_library(block.owner)) {
      stacks.push_back(block.stack);
    }
  };
  for (const LiveBlock& block : life.before) {
    add(block);
  }
  for (const MemoryEvent& event : life.events) {
    add(event.block);
  }
  for (size_t i = 0; failure != nullptr && i < failure->held.size(); ++i) {
    stacks.push_back(failure->held[i].stack);
  }
  return stacks;
}

}  // namespace traintrace
