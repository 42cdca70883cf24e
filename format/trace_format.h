// How a trace lies in memory and on disk.  One per process; both halves of traintrace include this
// header and nothing of each other.
//
// What constrains it
// - The process may be killed at any instruction, and the trace must be readable up to the last
//   record.  So it is recorded with plain stores into memory that is shared (MAP_SHARED): what was
//   stored is there, whoever dies.  Nothing is buffered, there is no trailer that a reader would
//   need.
// - The job's threads must never wait for a disk, nor be killed by one (a full or truncated file
//   under a mapping is SIGBUS, a frozen file system is a thread in D state).  So that memory is a
//   file of tmpfs or a memfd, and another process, the keeper, copies it to the folder with
//   write(2): docs/interposing.md.
// - It is read while it is written (`attach`).  A reader takes no lock and stops nobody: whatever
//   can change under it is a single aligned word, or is guarded by a word that is written last
//   (`committed`, `ordinal`, `used`).
// - Its memory is the job's own.  So sections begin small and grow up to a size that is fixed at
//   the start (`ready_bytes`); what lies beyond was never touched and is a hole.  Memory is
//   allocated before it is used, for a hole of a full tmpfs kills with SIGBUS, too.
// - What a hang or a leak needs is old, and must not be overwritten by what is new: events lie in
//   a ring whose oldest chunks are reused, everything else lies in tables that are never evicted.
// - Rows of calls.def come and go: the file names its own calls and fields (section kSchema), and
//   sections and their elements carry their sizes, so an older or newer trace stays readable.
//
// Rejected: one ring for all threads (an atomic per event, 4 threads cost 4x); a ring per thread
// (threads x size is unbounded, and a thread that was busy once holds its memory for ever);
// varint-packed records (10 ns per call for half the bytes: the ring holds a million calls as it
// is; TRAINTRACE_MODE=full packs off the hot path); a separate index or footer (a killed process
// would not have written it).
//
// Byte order is the host's (little-endian on every machine with CUDA); `magic` tells.
#pragma once

#include <cstdint>

#include "format/definitions.h"
#include "format/memory_tables.h"
#include "format/records.h"
#include "format/tables.h"

namespace traintrace::format {

// The file

inline constexpr char kMagic[8] = {'t', 'r', 't', 'r', 'a', 'c', 'e', '\n'};
// Raised when a reader of the previous version would misunderstand; growing elements and new
// sections do not.
// 2: Operation::reduction has 16 bits instead of 32, and `group` lies in the other half.
// 3: records of type kMoment.
// 4: sections have holes (`ready_bytes`), and a file may be the copy of a memory that is newer.
//    An element of kCommunicators belongs to one communicator after the other.
// 5: a TensorBlock that was freed says when.
inline constexpr uint32_t kVersion = 5;
inline constexpr uint32_t kOldestVersion = 1;  // that can be read

enum SectionKind : uint32_t {
  kNoSection = 0,
  kSchema = 1,          // text, see below
  kStats = 2,           // uint64_t per row of stats.def, in the order that the schema names them
  kThreads = 3,         // Thread
  kCommunicators = 4,   // Communicator
  kOperations = 5,      // Operation: kRecentOperations for each element of kCommunicators
  kPeers = 6,           // Peer
  kStreams = 7,         // Stream
  kAllocations = 8,     // Allocation, an open-addressing hash table: holes end nothing, read it all
  kDefinitions = 9,     // chunks of definitions, never reused
  kEvents = 10,         // chunks of events, reused oldest first
  kHostFunctions = 11,  // HostFunction
  // Only at the levels `marks` and `plugin` of TRAINTRACE_GPU_PROGRESS:
  kMarks = 12,              // MarkWords, one for each element of kStreams
  kOperationProgress = 13,  // OperationProgress, one for each element of kOperations
  kTensorBlocks = 14,       // TensorBlock, a hash table as kAllocations
  kTensorDevices = 15,      // TensorDevice, by number of the device
  kOutOfMemory = 16,        // OutOfMemory
  kHeldBlocks = 17,         // HeldBlock
  kChunkStates = 18,        // ChunkState, one for each chunk of kEvents; in memory only
  kOpenRanges = 19,         // OpenRanges, one for each of the first elements of kThreads
};

struct Section {
  uint32_t kind;  // SectionKind; a reader skips kinds it does not know
  uint32_t
      element_bytes;  // size of one element (of one chunk for kDefinitions and kEvents), 1 for text
  uint64_t offset;    // from the start of the file
  uint64_t bytes;     // a multiple of element_bytes
};
inline constexpr int kMaxSections = 24;

// One instant in three clocks.
struct ClockAnchor {
  uint64_t ticks;         // what records carry
  uint64_t monotonic_ns;  // CLOCK_MONOTONIC
  uint64_t realtime_ns;   // CLOCK_REALTIME, since the epoch
};

enum ClockKind : uint32_t {
  kTsc = 1,          // ticks are the processor's time stamp counter, invariant and synchronised
  kMonotonicNs = 2,  // ticks are CLOCK_MONOTONIC in ns
};

enum ExitKind : uint32_t {
  kNotExited = 0,  // running, or gone without a word: killed by a signal, machine lost
  kExit = 1,       // exit() or return from main
  kFastExit = 2,   // _exit, _Exit, quick_exit
};

// What the keeper, a small process that copies the trace, knows of the recorded one.
enum GoneHow : uint32_t {
  kNotSeenGone = 0,
  kSeenGone = 1,        // it had ended; how is not known
  kSeenGoneStatus = 2,  // and the kernel told how: `gone_status`
};

// What this file is to the memory that the process recorded into.
enum CopyState : uint32_t {
  kIsMemory = 0,  // that memory itself, or a file of version 3 and before
  kPartial = 1,   // copied while the process ran: what it did since is in the memory
  kFinal = 2,     // copied after its end: there is nothing newer
};

// What is asked of the keeper.
enum KeepFlag : uint32_t {
  kKeepAll = 1,           // TRAINTRACE_MODE=full
  kDefaultFolder = 2,     // nobody named the folder, so old runs may be removed from it
  kFolderLimitAsked = 4,  // somebody set TRAINTRACE_FOLDER_MB, so from a folder they named, too
  kRunOfLauncher = 8,     // a launcher named the run: `run_key` is that of its other processes, too
  kMachineBoottime = 16,  // `*_boottime_ns` count from the machine's start, whatever time namespace
                          // this is; else as this process saw it, which a namespace may have moved
};

// At offset 0, 4096 bytes.
struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint32_t section_count;
  uint32_t
      ready;  // 1 once everything below and all sections are in place; 0: nothing was recorded yet
  Section sections[kMaxSections];

  int32_t pid;
  int32_t parent_pid;
  uint64_t start_time;  // field 22 of /proc/PID/stat: with pid, the process's identity on its host
  uint64_t boot_id[2];  // of /proc/sys/kernel/random/boot_id
  uint64_t pid_namespace;  // inode of /proc/self/ns/pid
  char host[64];           // NUL-terminated

  uint32_t clock;         // ClockKind
  uint32_t anchor_index;  // which of `anchors` was written last
  ClockAnchor first_anchor;
  ClockAnchor anchors[2];  // renewed each second, in turn; the one named by anchor_index is whole

  uint64_t armed_ticks;
  uint64_t last_alive_ticks;  // stored each second by the tracer's own thread
  uint64_t exit_ticks;
  uint32_t exit_kind;   // ExitKind, stored after exit_status and exit_ticks
  int32_t exit_status;  // argument of exit

  uint64_t next_ordinal;  // of event chunks: the next one handed out
  uint64_t next_definition_chunk;

  // From version 4 on.

  // CLOCK_BOOTTIME at first_anchor, anchors[0] and anchors[1]; 0: not recorded.  With
  // kMachineBoottime it is the same for all processes of a host, and nobody sets it: who went
  // silent before whom is read from it.
  uint64_t anchor_boottime_ns[3];
  uint64_t gone_boottime_ns;  // CLOCK_BOOTTIME when the keeper saw that the process had ended
  uint64_t gone_realtime_ns;  // the same moment on CLOCK_REALTIME
  int32_t gone_status;        // wait status as wait(2) has it; -1: not known
  uint32_t gone_how;          // GoneHow, stored after the three above

  // Of each section, in the order of `sections`: from its start, bytes that may hold anything.
  uint64_t ready_bytes[kMaxSections];

  uint64_t run_key;  // equal for the processes of one job as far as its environment tells
  uint64_t folder_limit_bytes;   // of all traces of a folder: TRAINTRACE_FOLDER_MB
  uint64_t finished_ring_bytes;  // kept of the ring where a process ended well
  uint32_t keep_flags;           // KeepFlag
  uint32_t copy_state;           // CopyState
  uint64_t copied_realtime_ns;   // when this copy was made; 0: never

  // Who copies: the keeper, a process with the memory as descriptor `keeper_descriptor`; the
  // process itself (a thread of it) where no keeper could be started; 0: nobody yet.  Whoever wants
  // to copy first puts its own pid in the place of 0 or of a dead one, in one atomic step.
  int32_t keeper_pid;
  int32_t keeper_descriptor;  // -1: a thread copies
  uint64_t keeper_alive_boottime_ns;
  uint32_t keeper_wake;   // futex: raised to have a copy made now
  uint32_t copies_made;   // futex: raised after each whole copy
  uint32_t no_place;      // 1: no folder could be written to
  uint32_t keeper_steps;  // raised as it gets on within a copy

  char not_in_folder[64];  // why the copy is not in `folder`, which gets a pointer; empty: it is
  char memory_path[256];   // of the memory; empty: it has no name
  char folder[1024];       // TRAINTRACE_DIR, absolute
  char copy_path[1024];    // of the copy; empty: there is none yet

  // With keeper_pid, the identity of a keeper that is a process; 0: it has not stored it yet.
  uint64_t keeper_start_time;

  // As the launcher numbered this process, + 1; 0: it did not.  For the keeper's pointer file.
  uint32_t launch_rank;
  uint32_t launch_world;
  char collect[512];               // TRAINTRACE_COLLECT, absolute; empty: nothing is collected
  int32_t collect_problem;         // errno of the last attempt
  uint64_t collected_realtime_ns;  // when a pack was written there last; 0: never
  uint64_t mount_namespace;  // inode of /proc/self/ns/mnt: where `folder` is a path.  0: not known
};
static_assert(sizeof(FileHeader) <= 4096);
inline constexpr uint32_t kHeaderBytes = 4096;

// The schema
// Lines of text, fields separated by one blank, ended by a NUL:
//   traintrace VERSION
//   call ID NAME LIBRARY KIND FIELD..     FIELD is `in:NAME:FORMAT` (in the enter record) or
//   `out:NAME:FORMAT`
//                                         (in the leave record, present only if the call succeeded)
//   stat INDEX NAME SEVERITY
// IDs and indices are those of this file, in any order, with gaps.  FORMAT says how to print a
// 64-bit value (fields.def).  A reader takes an unknown FORMAT as hex.

}  // namespace traintrace::format
