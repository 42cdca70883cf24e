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
  kSchema = 1,         // text, see below
  kStats = 2,          // uint64_t per row of stats.def, in the order that the schema names them
  kThreads = 3,        // Thread
  kCommunicators = 4,  // Communicator
  kOperations = 5,     // Operation: kRecentOperations for each element of kCommunicators
  kPeers = 6,          // Peer
  kStreams = 7,        // Stream
  kAllocations =
      8,  // Allocation, an open-addressing hash table: a hole ends nothing, read all of it
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

// Events
// A chunk belongs to one thread while it is written.  Its records lie one after the other behind
// the header.  A copy shows a chunk as it was at one moment: its header is that of the records.

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

// Definitions
// What is recorded once and referred to by id.  Chunks as for events, but never reused: a chunk
// whose thread ended goes on with the next thread.

struct DefinitionChunk {
  uint64_t ordinal;    // 0: never used
  uint32_t committed;  // bytes of whole definitions behind this header
  uint32_t reserved;
};

enum DefinitionKind : uint32_t {
  kModule = 1,             // ModuleDefinition, build-id, path
  kPythonCode = 2,         // PythonCodeDefinition, texts, line table
  kStack = 3,              // StackDefinition, frames
  kKernel = 4,             // KernelDefinition, name
  kFact = 5,               // FactDefinition, key, value
  kEndedCommunicator = 6,  // EndedCommunicatorDefinition, Communicator
  kRangeName = 7,          // RangeNameDefinition, domain, name
};

// Each definition starts with this and is padded to 8 bytes.
struct DefinitionHead {
  uint32_t kind;   // DefinitionKind; a reader skips kinds it does not know
  uint32_t bytes;  // including this head and the padding
};

struct ModuleDefinition {
  DefinitionHead head;
  uint64_t begin;  // addresses in the recorded process
  uint64_t end;
  uint64_t bias;          // address in the process - address in the ELF file
  uint64_t loaded_ticks;  // seen first at
  uint32_t build_id_bytes;
  uint32_t path_bytes;
  // build-id, path (not NUL-terminated)
};

struct PythonCodeDefinition {
  DefinitionHead head;
  uint32_t id;
  uint32_t minor;  // of CPython 3.minor: says how to read the line table
  int32_t first_line;
  uint32_t name_bytes;
  uint32_t file_bytes;
  uint32_t line_table_bytes;
  // qualified name, file, line table
};

struct PythonFrame {
  uint32_t code;        // id of a PythonCodeDefinition
  int32_t instruction;  // offset of the current instruction in bytes
};

struct StackDefinition {
  DefinitionHead head;
  uint32_t id;  // never 0
  uint16_t python_frames;
  uint16_t native_frames;
  // PythonFrame[python_frames], uint64_t return addresses[native_frames]; innermost first
};

struct KernelDefinition {
  DefinitionHead head;
  uint64_t function;  // as launches name it: host address (runtime) or handle (driver)
  uint32_t name_bytes;
  uint32_t reserved;
  // mangled name
};

struct FactDefinition {
  DefinitionHead head;
  uint32_t key_bytes;
  uint32_t value_bytes;
  // key: "env.NAME" (what format/environment.def keeps; "(set)": its value is not kept), "exe",
  // "command-line" (arguments separated by NUL; secrets masked, format/secrets.h), "cwd",
  // "cuda-driver-version", "nccl-version", "setting.NAME" (value in force), "setting-error.NAME"
  // (bad value that was ignored), .. value
};

// What a range or a mark of NVTX is called; records and OpenRange say the id.
struct RangeNameDefinition {
  DefinitionHead head;
  uint32_t id;  // never 0
  uint32_t domain_bytes;
  uint32_t name_bytes;
  uint32_t reserved;
  // name of the domain (none: the default one), name, both UTF-8 as far as the job's own texts are
};

// Tables
// An element is in use if its first word is not 0.  Words that change later change by one aligned
// store.

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
  uint32_t used;       // 1 once the element is whole
  uint32_t origin;     // CommunicatorOrigin
  uint64_t id;         // equal on all ranks, different for different communicators (docs/format.md)
  uint64_t handle;     // ncclComm_t; 0 until known and after it was destroyed
  uint64_t parent;     // id of the parent of a split or shrink, else 0
  uint64_t nccl_hash;  // NCCL's own commHash, to join with its logs and RAS; 0 if not derivable
  int32_t size;        // -1: not known
  int32_t rank;        // rank of this process within it; -1: not known
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
  uint32_t parent_index;  // split, shrink: number of this rank's parent, 0: not known
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

struct Allocation {
  uint64_t address;  // or handle of memory.  0: unused, 1: freed and reusable; stored last
  uint64_t bytes;
  uint64_t ticks;
  uint64_t stream;  // handle of a stream-ordered allocation
  uint32_t stack;
  uint16_t call;
  uint8_t device;
  uint8_t reserved;
};
static_assert(sizeof(Allocation) == 40);

// Memory in use of PyTorch's caching allocator, which cuts it from what kAllocations has.  An
// element that was freed keeps all but its address until it is used again: what Python frees as the
// process ends is told there, however long ago the events of its allocation were overwritten.
struct TensorBlock {
  uint64_t address;  // even; 0: unused, odd: freed_at(ticks of its free), reusable; stored last
  uint64_t bytes;    // rounded by the allocator
  uint64_t ticks;
  uint32_t stack;
  uint8_t device;
  uint8_t reserved[3];
};
static_assert(sizeof(TensorBlock) == 32);

// TensorBlock::address once it is freed.  1: when is not known, as before version 5.
constexpr uint64_t freed_at(uint64_t ticks) {
  return ticks << 1 | 1;
}
constexpr bool is_freed(const TensorBlock& block) {
  return (block.address & 1) != 0;
}
constexpr uint64_t freed_ticks(const TensorBlock& block) {
  return block.address >> 1;
}

// The allocator's own totals of a device.  It reports under a lock of its own, so one thread writes
// at a time; words may be one report apart.
struct TensorDevice {
  uint64_t ticks;      // of the newest report, 0: none
  uint64_t allocated;  // bytes in use and bytes held, as it said then
  uint64_t reserved;
  uint64_t peak_allocated;  // largest seen, and when
  uint64_t peak_reserved;
  uint64_t peak_ticks;
  uint64_t before;       // in use before the first report that was seen
  uint64_t allocations;  // reports
  uint64_t frees;
  // Bytes allocated less bytes freed, by these reports: with `before` it is `allocated`, unless
  // reports were missed.
  int64_t change;
};
static_assert(sizeof(TensorDevice) == 80);

// When memory ran out.  A job that catches the error may run out again for hours; what matters is
// how it began and how it ended.  So of each of two sorts, PyTorch's reports and calls of CUDA that
// failed, the first kFirstFailures and the last kLastFailures are kept.
struct OutOfMemory {
  uint64_t ticks;      // 0: unused; stored last
  uint64_t bytes;      // asked for, 0: not known (a call that needs memory for itself)
  uint64_t allocated;  // PyTorch's totals of the device, 0: not known
  uint64_t reserved;
  uint64_t free;  // of the device, as the job itself asked last, at
  uint64_t total;
  uint64_t asked_ticks;  // 0: it never did
  uint32_t number;       // of all failures in this process, from 1
  uint32_t stack;
  uint16_t call;
  uint8_t device;
  uint8_t reserved_bytes;
  int32_t result;  // of the call, 0: PyTorch's report
  // The live blocks at that time are the elements of kHeldBlocks with this `number`; that many were
  // copied, and so many did not fit.  0 and 0: of a failure whose place in kHeldBlocks a later one
  // took, or whose copy was cut short.
  uint32_t held;
  uint32_t not_held;
};
static_assert(sizeof(OutOfMemory) == 80);
inline constexpr uint32_t kFirstFailures = 8;
inline constexpr uint32_t kLastFailures = 8;

// An element of kAllocations or kTensorBlocks when memory ran out last.
struct HeldBlock {
  uint64_t address;  // stored last, 0: unused
  uint64_t bytes;
  uint32_t stack;
  uint32_t number;  // OutOfMemory::number
  uint16_t call;    // of Allocation; a block of PyTorch's has the report's id
  uint8_t device;
  uint8_t reserved[5];
};
static_assert(sizeof(HeldBlock) == 32);

}  // namespace traintrace::format
