// The chunks of the ring: which there are, and copies of them that are whole.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/reader/files/trace_bytes.h"
#include "format/trace_format.h"

namespace traintrace {

struct ChunkPlace {
  uint64_t ordinal;
  uint64_t offset;  // in the file
  uint32_t element_bytes;
  uint32_t committed;  // when it was found; never more than fits the chunk
  uint32_t at = 0;     // of one in a segment: where in what that holds; `offset` is the segment's
  bool in_segment = false;
};

// The head of the record at `at`, if all of it is there.
std::optional<format::RecordHead> record_at(std::span<const uint64_t> words, size_t at);

// Those that were ever used, oldest first.
std::vector<ChunkPlace> find_chunks(const TraceBytes& file, const format::Section& section);

struct Chunk {
  format::EventChunk head;
  std::span<const uint64_t> words;  // of whole records, in the buffer
  bool cut;                         // less than `committed` bytes could be read
};

// Nothing: the chunk was given to younger records since it was found.
std::optional<Chunk> read_chunk(const TraceBytes& file, const ChunkPlace& place,
                                std::vector<uint64_t>& buffer);

}  // namespace traintrace
