// The definitions of a trace, one after the other, where all that matters is their kind.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "analyzer/reader/sections/tables.h"

namespace traintrace {

// Calls take(bytes) for each whole one.  What is damaged is the other reader's to complain about
// (definitions.cc).
template <class Take>
void for_each_definition(const ReadContext& context, uint32_t kind, Take take) {
  const format::Section* const section = context.layout.section(format::kDefinitions);
  constexpr size_t kHead = sizeof(format::DefinitionChunk);
  if (section == nullptr || section->element_bytes < kHead) {
    return;
  }
  std::vector<std::byte> chunk(section->element_bytes);
  for (uint64_t at = 0; at + section->element_bytes <= section->bytes;
       at += section->element_bytes) {
    const size_t head_got = context.file.read(section->offset + at, std::span(chunk).first(kHead));
    const auto head = value_from<format::DefinitionChunk>(std::span<const std::byte>(chunk));
    if (head_got < kHead || head.ordinal == 0) {
      continue;
    }
    const size_t bytes = std::min<size_t>(head.committed, chunk.size() - kHead);
    const size_t got =
        context.file.read(section->offset + at + kHead, std::span(chunk).first(bytes));
    std::span<const std::byte> rest = std::span(chunk).first(got);
    while (rest.size() >= sizeof(format::DefinitionHead)) {
      const auto definition = value_from<format::DefinitionHead>(rest);
      if (definition.bytes < sizeof definition || definition.bytes > rest.size()) {
        break;
      }
      if (definition.kind == kind) {
        take(rest.first(definition.bytes));
      }
      rest = rest.subspan(definition.bytes);
    }
  }
}

}  // namespace traintrace
