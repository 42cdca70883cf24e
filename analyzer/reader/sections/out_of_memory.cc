#include "analyzer/reader/sections/out_of_memory.h"

#include <algorithm>
#include <map>

#include "analyzer/reader/sections/elements.h"

namespace traintrace {
namespace {

OutOfMemoryText text_of(ReadContext& context, const format::OutOfMemory& from) {
  OutOfMemoryText failure;
  failure.number = from.number;
  failure.time = context.clock.ns(from.ticks);
  failure.bytes = from.bytes;
  failure.allocated = from.allocated;
  failure.reserved = from.reserved;
  failure.free = from.free;
  failure.total = from.total;
  failure.asked = context.clock.ns(from.asked_ticks);
  failure.stack = from.stack;
  failure.call = context.schema.call(from.call);
  failure.device = from.device;
  failure.result = from.result;
  failure.not_held = from.not_held;
  return failure;
}

// Of each failure, how many of its blocks must be there.
using Held = std::map<uint32_t, uint32_t>;

Held read_failures(ReadContext& context, const format::Section& section) {
  Held held;
  std::vector<OutOfMemoryText>& into = context.trace.out_of_memory;
  read_elements<format::OutOfMemory>(
      context.file, section, [](const format::OutOfMemory& failure) { return failure.ticks != 0; },
      [](const format::OutOfMemory& a, const format::OutOfMemory& b) {
        return a.ticks == b.ticks && a.number == b.number && a.held == b.held;
      },
      [&](uint64_t, const format::OutOfMemory& from) {
        into.push_back(text_of(context, from));
        held[from.number] = from.held;
      });
  std::stable_sort(
      into.begin(), into.end(),
      [](const OutOfMemoryText& a, const OutOfMemoryText& b) { return a.number < b.number; });
  return held;
}

}  // namespace

void read_out_of_memory(ReadContext& context) {
  const format::Section* failures = context.layout.section(format::kOutOfMemory);
  const format::Section* blocks = context.layout.section(format::kHeldBlocks);
  if (failures == nullptr) {
    return;
  }
  const Held expected = read_failures(context, *failures);
  if (blocks == nullptr) {
    return;
  }
  std::map<uint32_t, std::vector<HeldBlockText>> found;
  read_elements<format::HeldBlock>(
      context.file, *blocks, [](const format::HeldBlock& block) { return block.address != 0; },
      [](const format::HeldBlock& a, const format::HeldBlock& b) {
        return a.address == b.address && a.number == b.number;
      },
      [&](uint64_t, const format::HeldBlock& from) {
        found[from.number].push_back(
            {from.address, from.bytes, from.stack, context.schema.call(from.call), from.device});
      });
  for (OutOfMemoryText& failure : context.trace.out_of_memory) {
    const auto those = found.find(failure.number);
    const auto count = expected.find(failure.number);
    // Some, but not all: a later failure is taking their place.
    if (those != found.end() && count != expected.end() && those->second.size() == count->second) {
      failure.held = std::move(those->second);
      std::stable_sort(failure.held.begin(), failure.held.end(),
                       [](const HeldBlockText& a, const HeldBlockText& b) {
                         return a.address != b.address ? a.address < b.address : a.call < b.call;
                       });
    }
  }
}

}  // namespace traintrace
