// What full recording kept beside the trace (format/segments.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/reader/sections/event_chunks.h"
#include "format/segments.h"

namespace traintrace {

class SegmentReader {
 public:
  // Nothing: there is no such file, or it belongs to another process.
  static std::optional<SegmentReader> beside(const TraceBytes& trace,
                                             const format::FileHeader& header);

  // Of all whole segments.  What is damaged ends the file, with an error; a cut end is none.
  std::vector<ChunkPlace> find_chunks(std::vector<ReadError>& problems);
  std::optional<Chunk> read_chunk(const ChunkPlace& place, std::vector<uint64_t>& buffer);
  void forget() { unpacked_.clear(); }

 private:
  SegmentReader(TraceBytes file, const format::FileHeader& header)
      : file_(std::make_shared<const TraceBytes>(std::move(file))),
        pid_(header.pid),
        start_time_(header.start_time) {}

  std::optional<format::SegmentHead> head_at(uint64_t offset) const;
  bool is_ours(const format::SegmentHead& head) const;
  const std::vector<std::byte>* unpacked(uint64_t offset);

  std::shared_ptr<const TraceBytes> file_;
  int32_t pid_;
  uint64_t start_time_;
  struct Unpacked {
    uint64_t offset = 0;
    std::vector<std::byte> bytes;
  };
  std::vector<Unpacked> unpacked_;  // the last few that were needed, the newest last
};

}  // namespace traintrace
