// The tables of a trace that say where threads, communicators and streams stand.
// An element is in use if its first word is not 0.  Words that change later change by one aligned
// store.
#pragma once

#include <cstdint>

#include "format/definitions.h"

namespace traintrace::format {

struct OpenCall {
  uint64_t enter_ticks;  // 0: no call open.  Stored last on enter and first on leave
  uint16_t call;
  uint16_t reserved;
  uint32_t stack;
};

struct Thread {
  uint32_t serial;  // unique in this process, from 1
  int32_t tid;
  char name[16];
  uint64_t started_ticks;  // its first event
  uint64_t ended_ticks;    // seen gone at; 0: alive
  uint64_t events;         // records written
  uint64_t dropped;        // calls not recorded: no chunk to be had, or nested in a signal handler
  OpenCall open[2];  // calls in flight: [0] CUDA, [1] NCCL (that may have a CUDA call open inside)
  // Polling is not recorded call by call: the first query of an object after a call of another sort
  // is a record, so is the one that says it is over; the others of the same function on the same
  // object count here.
  uint64_t last_query_ticks;
  uint64_t queries;          // since the last record of another sort
  uint64_t last_call_ticks;  // time of the last enter or query
  uint16_t last_call;        // 0xffff: none yet
  uint16_t group_depth;      // ncclGroupStart without ncclGroupEnd
  uint32_t last_stack;       // of the last call that had one
  uint32_t group_stack;      // of the outermost ncclGroupStart, while a group is open
  uint32_t reserved;
  uint64_t folded;             // queries that are no records, since the thread's first event
  uint64_t reserved_words[7];  // so that no two threads write to one line of the cache
};
static_assert(sizeof(Thread) == 192);

// Values of OpenRange::domain.  From kStepDomain on these are no ranges.
enum RangeDomain : uint32_t {
  kMarkerDomain = 0x7fff'ffff,  // pushed by the job's own markers (include/traintrace.h)
  kStepDomain = 0x8000'0000,    // the step of the job that the thread is in: `name` has it
  kNoteDomain = 0xc000'0000,    // with 30 bits of a hash of its key: "key text", the newest of it
};

// A range of NVTX that was pushed and not popped.
struct OpenRange {
  uint64_t began_ticks;  // 0: popped out of order, while others of another domain were above it
  uint32_t range;        // id of a RangeNameDefinition; 0: there were too many different names
  uint32_t domain;       // RangeDomain, else for the tracer: 0 is NVTX's default one
  char name[48];         // where `range` is 0: its beginning, NUL-padded
};  // of notes and steps, which are changed in place, began_ticks is stored last
inline constexpr uint32_t kMostOpenRanges = 32;

// Those of one thread, outermost first.
struct OpenRanges {
  // How many lie in `ranges` (lower 16 bits), under a count of pushes and pops from 1: equal before
  // and after copying means that the copy is whole.  0: the thread has pushed none.
  uint64_t state;
  uint32_t thread;  // Thread::serial; another one than in kThreads: of a thread before it
  uint32_t deeper;  // further ones, that found no room
  uint64_t reserved[6];
  OpenRange ranges[kMostOpenRanges];
};
static_assert(sizeof(OpenRange) == 64 && sizeof(OpenRanges) == 2112);

enum CommunicatorOrigin : uint32_t {
  kInitRank = 1,  // by unique id: CommInitRank, -Config, -Scalable
  kInitAll = 2,
  kSplit = 3,
  kShrink = 4,
  kUnknownOrigin = 5,  // first seen when used: its creation was not recorded
  kGrow = 6,           // by its parent's ranks, and by those that join, who have no parent
};

// Words of Communicator::flags.
enum CommunicatorFlag : uint32_t {
  kInitDone = 1,  // creation has succeeded
  kNonBlocking = 2,
  kFinalized = 4,     // ncclCommFinalize succeeded
  kDestroyed = 8,     // ncclCommDestroy was entered
  kAborted = 16,      // ncclCommAbort, Revoke or Shrink with abort was entered: progress is frozen
  kAsyncError = 32,   // ncclCommGetAsyncError reported `async_error`
  kNoColor = 64,      // a split in which this rank took part without becoming a member
  kInitFailed = 128,  // creation has failed, with `async_error`
  kAfterEnd = 256,    // used after its end: `parent_index` says which one had that handle
};

struct Checkpoint {
  uint64_t sequence;  // 0: none
  uint64_t hash;      // rolling hash after that operation
};
// Taken at every kCheckpointEvery-th operation, into element (sequence / kCheckpointEvery) %
// kCheckpoints.
inline constexpr int kCheckpoints = 16;
inline constexpr uint64_t kCheckpointEvery = 256;

struct Communicator {
  uint32_t used;    // 1 once the element is whole
  uint32_t origin;  // CommunicatorOrigin
  uint64_t id;      // equal on all ranks, different for different communicators (docs/format.md)
  uint64_t handle;  // ncclComm_t; 0 until known and after it was destroyed
  uint64_t parent;  // id of the parent of a split, shrink or growth, else 0
  // NCCL's own commHash, to join with its logs and RAS; 0 if not derivable.  Of kGrow the hash of
  // the unique id that makes it, where this rank was given it: joins those with and without parent.
  uint64_t nccl_hash;
  int32_t size;  // -1: not known
  int32_t rank;  // rank of this process within it; -1: not known
  int32_t device;
  int32_t color;           // split
  int32_t key;             // split
  uint32_t ordinal;        // n-th split of the parent, n-th use of the unique id
  uint32_t flags;          // CommunicatorFlag
  int32_t async_error;     // ncclResult_t
  uint64_t created_ticks;  // entry of the creating call
  uint64_t ready_ticks;    // its successful return
  uint64_t ended_ticks;    // entry of Destroy or Abort
  uint32_t created_stack;
  uint32_t ended_stack;
  char name[32];         // ncclConfig_t.commName, NUL-terminated, may be empty
  uint64_t collectives;  // issued: entered without an immediate error; the sequence of the last one
  uint64_t hash;  // rolling hash of their kind, count, type, reduction and root (docs/format.md)
  uint64_t operations;    // all, send and receive too: index of the next element in kOperations
  uint64_t last_ticks;    // entry of the last operation
  uint64_t members_hash;  // shrink: of the excluded ranks
  uint32_t parent_index;  // split, shrink, growth: number of this rank's parent, 0: not known
  // What records and other tables call it: index + 1, and with each use of the element that many
  // more as the table has elements.  So no two have one number.  0: index + 1 (older traces).
  uint32_t number;
  Checkpoint checkpoints[kCheckpoints];  // one beyond `collectives` was taken back
  // `hash` at sequence n lies in latest[n % 2] too: where `collectives` and `hash` were read an
  // instant apart, this tells which belong together.
  Checkpoint latest[2];
  uint64_t error_ticks;  // when `async_error` was first known
};

// Where the table is full, a new communicator gets the element of the one that ended longest ago.
// What that was is a definition then, but for its operations.
struct EndedCommunicatorDefinition {
  DefinitionHead head;
  uint32_t number;
  uint32_t communicator_bytes;
  // Communicator
};

inline constexpr uint32_t kRecentOperations = 64;

enum OperationFlag : uint8_t {
  kGrouped = 1,  // called between GroupStart and GroupEnd
  kLaunched =
      2,  // handed to the stream: the call, or the outermost GroupEnd, has returned successfully
  kCaptured = 4,    // into a graph: does not run now
  kEmpty = 8,       // count 0: NCCL drops it
  kFailed = 16,     // the call returned an error
  kUntracked = 32,  // its completion cannot be observed (launch still under way, unknown stream)
  kReplayed = 64,   // by a graph launch
  kFinished = 128,  // known directly, or frozen as such by an abort
};

// Operation n of a communicator lies in element n % kRecentOperations of its part of kOperations.
struct Operation {
  uint64_t enter_ticks;  // 0: unused.  Stored last
  uint64_t leave_ticks;  // 0: the call has not returned
  uint64_t sequence;     // collectives: from 1; send and receive: from 1 per peer and direction
  uint64_t count;        // elements
  uint16_t call;
  uint8_t data_type;  // ncclDataType_t, 255: none
  uint8_t flags;      // OperationFlag
  uint32_t stack;
  int16_t reduction;   // ncclRedOp_t: 0..4 built in, 5: made by PreMulSum, -1: none
  uint16_t group;      // equal for those of one outermost group, other for the next; 0: not known
  int32_t peer;        // root of a rooted collective, peer of send and receive, -1: none
  uint32_t stream;     // index in kStreams + 1, 0: not known
  uint32_t index_low;  // low 32 bits of n: tells a reader which lap this is
  uint64_t position;   // finished when the stream's `completed` has reached it; 0: not known
};
static_assert(sizeof(Operation) == 64);
// An `Operation::position` of an aborted communicator: its kernels leave early, so that completion
// says nothing; what was finished when the abort was entered has kFinished.
inline constexpr uint64_t kNeverReached = ~uint64_t{0};

// Level `marks`: of each stream two words that the GPU writes when the stream comes to them, before
// and after the launch of NCCL operations.  The numbers of a stream's launches grow.
struct MarkWords {
  uint32_t reached;   // number of the last launch that the stream has come to
  uint32_t finished;  // number of the last one that it has got past
  uint32_t launched;  // last number given out, by the host: of later ones these words say nothing
  uint32_t reserved;
};
constexpr bool is_marked(uint32_t word, uint32_t number) {
  return static_cast<int32_t>(word - number) >= 0;
}

// The words must be pinned, and a trace may lie on a file system whose pages cannot be.  So the GPU
// writes to a small file in memory, this and MarkWords behind it; kMarks is a copy made each second
// and at the exit.  The fact `marks-file` says where it is; it stays after a SIGKILL.
struct MarksFileHeader {
  char magic[8];
  int32_t pid;  // these three as in FileHeader
  uint32_t streams;
  uint64_t start_time;
  uint64_t boot_id[2];
  uint64_t alive_ns;  // CLOCK_REALTIME, stored each second: who finds it old may remove the file
};
inline constexpr char kMarksMagic[8] = {'t', 'r', 't', 'm', 'a', 'r', 'k', '\n'};
inline constexpr uint32_t kMarksHeaderBytes = 4096;

enum ProgressFlag : uint32_t {
  kByMarks = 1,   // compare `launch` with the stream's MarkWords
  kByPlugin = 2,  // NCCL's profiler said so: kSeenReached, kSeenFinished
  // The launch holds operations of other communicators on the same stream: that it was reached
  // says nothing about this operation.
  kShared = 4,
  kFrozen = 8,  // by an abort: only kSeenReached, kSeenFinished count
  kSeenReached = 16,
  kSeenFinished = 32,
};

// What the GPU, or NCCL, says about an operation.  `Operation::index_low` tells whose it is.
struct alignas(8) OperationProgress {
  uint32_t launch;  // 0: nothing is said.  Stored last
  uint32_t stream;  // index in kStreams + 1
  uint32_t index_low;
  uint32_t flags;  // ProgressFlag
};

struct Peer {
  uint32_t communicator;  // Communicator::number
  uint32_t is_receive;
  int32_t peer;
  uint32_t reserved;
  uint64_t operations;
  uint64_t hash;  // rolling hash of their count and type: both ends have the same
  uint64_t last_ticks;
  Checkpoint latest[2];  // as Communicator's
};

enum StreamFlag : uint32_t {
  kStreamDestroyed = 1,
  kCapturing = 2,
  kImplicit = 4,  // a default stream: nobody created it
};

// GPU progress as seen from the host, without putting anything on a stream: `issued` counts what
// was handed to the stream (NCCL operations, and waits for events behind NCCL operations of other
// streams); an event recorded there remembers that number, and a successful query or
// synchronisation of the event or of the stream raises `completed` to it.
struct Stream {
  uint64_t handle_tag;  // handle + 1, so that the default stream is not 0
  int32_t device;       // -1: not known
  uint32_t flags;       // StreamFlag
  uint64_t issued;
  uint64_t completed;
  uint64_t completed_ticks;
  uint64_t created_ticks;
  uint64_t destroyed_ticks;
  uint32_t stack;
  uint32_t reserved;
};

// A function that a thread of CUDA's calls when a stream has come to it (cudaLaunchHostFunc,
// cudaStreamAddCallback), from when it was put on the stream until its place is needed again.
// Entered and not left: it holds the stream up, or did when the process ended.
struct HostFunction {
  uint64_t function;  // address.  0: unused; stored last
  uint64_t enqueued_ticks;
  uint64_t entered_ticks;  // 0: not yet
  uint64_t left_ticks;     // 0: not yet
  uint64_t position;       // Stream::issued before it: what lies further waits for it
  uint32_t stream;         // index in kStreams + 1, 0: not known
  uint32_t stack;          // of the call that put it there
  int32_t tid;             // of the thread that entered it
  uint16_t call;
  uint8_t device;
  uint8_t reserved;
};
static_assert(sizeof(HostFunction) == 56);
}  // namespace traintrace::format
