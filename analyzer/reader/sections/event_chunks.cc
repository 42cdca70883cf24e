#include "analyzer/reader/sections/event_chunks.h"

#include <algorithm>

namespace traintrace {
namespace {

constexpr size_t kHead = sizeof(format::EventChunk);

}  // namespace

std::optional<format::RecordHead> record_at(std::span<const uint64_t> words, size_t at) {
  if (at >= words.size()) {
    return std::nullopt;
  }
  format::RecordHead head;
  std::memcpy(&head, &words[at], sizeof head);
  const bool fits = head.words >= 2 && head.words <= words.size() - at &&
                    (head.type != format::kEnter || head.words >= 3);
  return fits ? std::optional(head) : std::nullopt;
}

std::vector<ChunkPlace> find_chunks(const TraceBytes& file, const format::Section& section) {
  std::vector<ChunkPlace> chunks;
  if (section.element_bytes < kHead || section.element_bytes % 8 != 0) {
    return chunks;
  }
  const auto room = static_cast<uint32_t>(section.element_bytes - kHead);
  const uint64_t count = section.bytes / section.element_bytes;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t offset = section.offset + i * section.element_bytes;
    std::byte bytes[kHead];
    if (file.read(offset, bytes) < kHead) {
      break;
    }
    const auto head = value_from<format::EventChunk>(bytes);
    if (head.ordinal != 0) {
      chunks.push_back(
          {head.ordinal, offset, section.element_bytes, std::min(head.committed, room), 0, false});
    }
  }
  std::stable_sort(chunks.begin(), chunks.end(),
                   [](const ChunkPlace& a, const ChunkPlace& b) { return a.ordinal < b.ordinal; });
  return chunks;
}

std::optional<Chunk> read_chunk(const TraceBytes& file, const ChunkPlace& place,
                                std::vector<uint64_t>& buffer) {
  buffer.resize(place.element_bytes / 8);
  const auto bytes = std::as_writable_bytes(std::span(buffer));
  // First how much of it is whole, then the records: the other way round they may be older.
  std::byte head_bytes[kHead];
  if (file.read(place.offset, head_bytes) < kHead) {
    return std::nullopt;
  }
  const auto head = value_from<format::EventChunk>(head_bytes);
  const size_t committed = std::min<size_t>(head.committed, place.element_bytes - kHead);
  const size_t got = file.read(place.offset + kHead, bytes.first(committed));
  std::byte ordinal_bytes[8];
  if (file.read(place.offset, ordinal_bytes) < sizeof ordinal_bytes ||
      value_from<uint64_t>(ordinal_bytes) != head.ordinal || head.ordinal != place.ordinal) {
    return std::nullopt;
  }
  return Chunk{head, std::span<const uint64_t>(buffer).first(got / 8),
               got < head.committed || head.committed % 8 != 0};
}

}  // namespace traintrace
