// What `traintrace collect` writes: HOST.PID.STARTTIME.ttz, the trace of one process in a file that
// may be copied anywhere and is read as the trace itself.  Packs of different processes that are
// called alike have a number, too (pack_name.h).
//
// A head, then blocks, each a part of one of the files that a process leaves (its trace, what full
// recording kept, what its threads were doing), packed by zstd, with checksums.  Parts that are all
// zeros have no block.  The last block says how many there were: a pack that was cut is known as
// one.  It is written under another name and renamed, so under its own it is whole.
//
// Blocks of one file come in the order of their offsets and do not overlap.
#pragma once

#include <cstdint>

namespace traintrace::format {

inline constexpr char kPackMagic[8] = {'t', 'r', 't', 'p', 'a', 'c', 'k', '\n'};
inline constexpr uint32_t kPackVersion = 1;
inline constexpr char kPackSuffix[] = ".ttz";
inline constexpr char kThreadsSuffix[] = ".threads";

// Which file a block is a part of.
enum PackMember : uint32_t {
  kPackEnd = 0,  // of none: the last block
  kPackTrace = 1,
  kPackSegments = 2,
  kPackThreads = 3,
};
inline constexpr uint32_t kPackMembers = 4;

enum PackFlag : uint32_t {
  kPackRunning = 1,  // the process was running when this was written, so it is a snapshot
  kPackGone = 2,     // it was not, by the word of the kernel of its host
};

struct PackHead {
  char magic[8];
  uint32_t version;
  uint32_t head_bytes;
  uint64_t member_bytes[kPackMembers];  // by PackMember: length of that file; 0: there is none
  uint64_t collected_realtime_ns;
  uint64_t boot_id[2];  // these three as in FileHeader
  uint64_t start_time;
  int32_t pid;
  uint32_t flags;        // PackFlag
  uint64_t armed_ticks;  // as in FileHeader; 0: not told, by an older version
  uint64_t checksum;     // XXH3, 64 bits, of all before
};
static_assert(sizeof(PackHead) == 104);

inline constexpr char kBlockMagic[4] = {'b', 'l', 'k', '\n'};
inline constexpr uint32_t kMostBlockBytes = 256 << 10;

struct PackBlock {
  char magic[4];
  uint32_t member;         // PackMember
  uint64_t offset;         // in that file; of the last block: how many there were before it
  uint32_t raw_bytes;      // at most kMostBlockBytes
  uint32_t packed_bytes;   // that follow; equal to raw_bytes: they are as they were
  uint64_t checksum;       // XXH3 of the bytes that follow
  uint64_t head_checksum;  // XXH3 of all before
};
static_assert(sizeof(PackBlock) == 40);

}  // namespace traintrace::format
