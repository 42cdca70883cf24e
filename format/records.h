// The events of a trace (sections kEvents and kChunkStates), in chunks.
// A chunk belongs to one thread while it is written.  Its records lie one after the other behind
// the header.  A copy shows a chunk as it was at one moment: its header is that of the records.
#pragma once

#include <cstdint>

namespace traintrace::format {

struct EventChunk {
  uint64_t ordinal;  // 0: never used.  Else larger = younger; stored as 0 before a chunk is reused
                     // and set last, so a reader that sees the same value before and after copying
                     // has a whole chunk
  uint32_t thread;   // Thread::serial
  int32_t tid;
  uint64_t first_event;  // number of records this thread had written before this chunk
  uint32_t committed;    // bytes of whole records behind this header
  uint32_t reserved;
};
static_assert(sizeof(EventChunk) == 32);

// For the recorder and the keeper: who writes a chunk, and whether it may be lost.
struct ChunkState {
  uint64_t state;    // twice the chunk's ordinal, + 1 while a thread writes it
  uint64_t kept;     // twice the chunk's ordinal, + 1 once it is in a segment
  uint32_t records;  // once it is released
  uint32_t reserved;
};
static_assert(sizeof(ChunkState) == 24);

enum RecordType : uint8_t {
  kMoment = 0,  // what has no duration: head, ticks, `in` fields.  PyTorch's allocator reports so
  kEnter = 1,   // a call was entered
  kLeave = 2,   // the innermost open call of this thread returned
  kNote = 3,    // something about the trace itself: `call` is a NoteKind
};

enum NoteKind : uint16_t {
  kDropped = 1,  // one word: this many calls of this thread were not recorded here
};

// The first word of every record, then `words` - 1 more.  Word 1 is always the time in ticks.
struct RecordHead {
  uint16_t call;      // id of the schema
  uint8_t words : 6;  // 64-bit words including this one
  uint8_t type : 2;   // RecordType
  uint8_t device;     // enter: the thread's current device, kNoDevice if not known.  moment: the
                      // one that is meant
  // enter, moment: id of a Stack definition, 0 for none.  leave: the result code, as int32_t
  uint32_t stack;
};
static_assert(sizeof(RecordHead) == 8);
inline constexpr uint8_t kNoDevice = 255;
inline constexpr int kMaxFields = 20;
// enter: head, ticks, caller (the return address of the call), `in` fields.   leave: head, ticks,
// `out` fields.
}  // namespace traintrace::format
