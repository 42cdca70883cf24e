#include "analyzer/reader/sections/segments.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>

namespace traintrace {
namespace {

constexpr uint32_t kMostSegmentBytes = 64U << 20;
constexpr size_t kKeptSegments = 2;
constexpr size_t kSegmentHead = sizeof(format::SegmentHead);

std::string path_beside(const std::string& trace) {
  const std::string suffix = format::kTraceSuffix;
  return trace.ends_with(suffix)
             ? trace.substr(0, trace.size() - suffix.size()) + format::kSegmentsSuffix
             : "";
}

// The chunks of one segment; nothing if they do not fill it as its head says.
std::optional<std::vector<ChunkPlace>> chunks_in(std::span<const std::byte> bytes,
                                                 const format::SegmentHead& head, uint64_t offset) {
  std::vector<ChunkPlace> chunks;
  for (size_t at = 0; at < bytes.size();) {
    if (bytes.size() - at < sizeof(format::EventChunk)) {
      return std::nullopt;
    }
    const auto chunk = value_from<format::EventChunk>(bytes.subspan(at));
    const size_t all = sizeof chunk + size_t{chunk.committed};
    if (chunk.committed % 8 != 0 || all > bytes.size() - at || chunk.ordinal == 0) {
      return std::nullopt;
    }
    chunks.push_back({chunk.ordinal, offset, static_cast<uint32_t>(all), chunk.committed,
                      static_cast<uint32_t>(at), true});
    at += all;
  }
  return chunks.size() == head.chunks ? std::optional(std::move(chunks)) : std::nullopt;
}

}  // namespace

std::optional<SegmentReader> SegmentReader::beside(const TraceBytes& trace,
                                                   const format::FileHeader& header) {
  const std::string path = path_beside(trace.path());
  if (path.empty()) {
    return std::nullopt;
  }
  Result<TraceBytes> file = TraceBytes::open(path);
  if (!file) {
    return std::nullopt;
  }
  return SegmentReader(std::move(*file), header);
}

// Nothing: the file ends here, or in it.
std::optional<format::SegmentHead> SegmentReader::head_at(uint64_t offset) const {
  std::byte bytes[kSegmentHead];
  if (file_->read(offset, bytes) < kSegmentHead) {
    return std::nullopt;
  }
  return value_from<format::SegmentHead>(bytes);
}

bool SegmentReader::is_ours(const format::SegmentHead& head) const {
  return std::memcmp(head.magic, format::kSegmentMagic, sizeof head.magic) == 0 &&
         head.pid == pid_ && head.start_time == start_time_ &&
         head.raw_bytes <= kMostSegmentBytes && head.packed_bytes <= kMostSegmentBytes;
}

const std::vector<std::byte>* SegmentReader::unpacked(uint64_t offset) {
  const auto found = std::find_if(unpacked_.begin(), unpacked_.end(),
                                  [&](const Unpacked& entry) { return entry.offset == offset; });
  if (found != unpacked_.end()) {
    std::rotate(found, found + 1, unpacked_.end());
    return &unpacked_.back().bytes;
  }
  const auto head = head_at(offset);
  if (!head || !is_ours(*head)) {
    return nullptr;
  }
  std::vector<std::byte> packed(head->packed_bytes);
  std::vector<std::byte> raw(head->raw_bytes);
  if (file_->read(offset + kSegmentHead, packed) < packed.size()) {
    return nullptr;
  }
  const size_t size = ZSTD_decompress(raw.data(), raw.size(), packed.data(), packed.size());
  if (ZSTD_isError(size) != 0 || size != raw.size()) {
    return nullptr;
  }
  if (unpacked_.size() == kKeptSegments) {
    unpacked_.erase(unpacked_.begin());
  }
  unpacked_.push_back({offset, std::move(raw)});
  return &unpacked_.back().bytes;
}

std::vector<ChunkPlace> SegmentReader::find_chunks(std::vector<ReadError>& problems) {
  std::vector<ChunkPlace> all;
  uint64_t offset = 0;
  for (auto head = head_at(offset); head; head = head_at(offset)) {
    if (is_ours(*head) && file_->bytes() - offset - kSegmentHead < head->packed_bytes) {
      break;  // was being written
    }
    const std::vector<std::byte>* raw = unpacked(offset);
    const auto chunks = raw == nullptr ? std::nullopt : chunks_in(*raw, *head, offset);
    if (!chunks) {
      problems.push_back(file_->error(offset, "expected a segment of this process"));
      break;
    }
    all.insert(all.end(), chunks->begin(), chunks->end());
    offset += kSegmentHead + head->packed_bytes;
  }
  return all;
}

std::optional<Chunk> SegmentReader::read_chunk(const ChunkPlace& place,
                                               std::vector<uint64_t>& buffer) {
  const std::vector<std::byte>* raw = unpacked(place.offset);
  if (raw == nullptr || raw->size() < size_t{place.at} + place.element_bytes) {
    return std::nullopt;
  }
  const auto bytes = std::span(*raw).subspan(place.at, place.element_bytes);
  buffer.resize(place.committed / 8);
  std::memcpy(buffer.data(), bytes.data() + sizeof(format::EventChunk), place.committed);
  return Chunk{value_from<format::EventChunk>(bytes), buffer, false};
}

}  // namespace traintrace
