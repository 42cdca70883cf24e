// What TRAINTRACE_MODE=full keeps of a ring that is too small: HOST.PID.STARTTIME.segments beside
// the trace.
//
// One segment after the other, each a head and a frame of zstd, which holds chunks of events as
// they lay in the ring: EventChunk and `committed` bytes.  Only chunks that nobody writes any more,
// so what is in the ring, too, says the same there.  Of each thread the chunks are in any order.
// There is no index, and the last segment may be cut: the process may end at any instruction.
#pragma once

#include <cstdint>

namespace traintrace::format {

struct SegmentHead {
  char magic[8];
  uint64_t start_time;  // these two as in FileHeader
  int32_t pid;
  uint32_t chunks;
  uint32_t raw_bytes;
  uint32_t packed_bytes;
};
static_assert(sizeof(SegmentHead) == 32);
inline constexpr char kSegmentMagic[8] = {'t', 'r', 't', 's', 'e', 'g', '1', '\n'};
inline constexpr char kTraceSuffix[] = ".trace";
inline constexpr char kSegmentsSuffix[] = ".segments";

}  // namespace traintrace::format
