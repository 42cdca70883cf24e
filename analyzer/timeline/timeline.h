// What a GPU did and when, whoever recorded it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/timeline/spans.h"

namespace traintrace {

enum class WorkKind : uint8_t { kCompute, kCommunication, kMemory };

// Whether something ended then, or at some time before.
enum class EndKnown : uint8_t { kExactly, kAtLatest };

// One kernel, copy or set.  Times in ns of the trace's own clock, end not included.
struct GpuWork {
  int64_t start_ns;
  int64_t end_ns;
  uint64_t correlation;  // joins it with the call that launched it; 0: not known
  uint32_t name;         // index in Timeline::names
  int32_t stream;        // -1: not known
  int32_t device;
  WorkKind kind;
  EndKnown end = EndKnown::kExactly;
  uint16_t shape = 0;  // the same for the same grid and blocks; 0: not known
};
static_assert(sizeof(GpuWork) <= 40);

inline constexpr uint32_t kNoName = 0xffffffff;

enum class HostCallKind : uint8_t {
  kOther,
  kBlocking,   // returns when the GPU has got somewhere
  kAllocator,  // takes or gives back memory, or loads code
  kLoader,     // gets the next batch of data
  kPeerWait,   // waits for other processes without the GPU
};

// A call on the host that something can be learned from: what launches work, blocks, or keeps the
// thread from launching.
struct HostCall {
  int64_t start_ns;
  int64_t end_ns;
  uint64_t correlation;  // 0: launches nothing
  uint32_t name;         // index in Timeline::names
  uint32_t thread;       // index in Timeline::threads
  HostCallKind kind;
  int16_t device = -1;      // the thread's current one; -1: not known
  uint32_t site = kNoName;  // innermost frame of the user's Python code, in Timeline::names
};
static_assert(sizeof(HostCall) <= 40);

// What of the framework stands around a call: the innermost of each kind, in Timeline::names.
struct CallContext {
  uint32_t op = kNoName;          // operator: "aten::mm", "nccl:all_reduce"
  uint32_t annotation = kNoName;  // record_function, NVTX: "Optimizer.step#AdamW.step"
  uint32_t module = kNoName;      // "nn.Module: Linear_0"
};

// What the framework said of a kernel of NCCL.
struct CollectiveNote {
  uint64_t correlation;
  uint32_t operation = kNoName;  // "allreduce", in Timeline::names
  uint32_t group = kNoName;      // the process group's name
  uint32_t members = kNoName;    // of the group, as written: "[0, 1]"
  int32_t group_size = -1;
  int64_t sequence = -1;
  int64_t bytes = -1;  // that this rank puts in
  // When the last rank came to it, where that was long after this one; 0: it was not, or is not
  // known (note_late_peers).
  int64_t last_came_ns = 0;
  int32_t peer = -1;  // of a message: the global rank that it goes to or comes from; -1: not known
};

// What a piece of work had to wait for beside what stands before it on its stream: an event, or by
// the rules of the legacy default stream.
struct WorkWait {
  uint64_t correlation;    // of what waits
  uint64_t before;         // of what it waits for, or one of these:
  bool by_legacy = false;  // only by the rules of the legacy default stream

  static constexpr uint64_t kUnknown = 0;           // the host, a value in memory, another process
  static constexpr uint64_t kPeers = ~uint64_t{0};  // other ranks, with no kernel of NCCL
  auto operator<=>(const WorkWait&) const = default;  // NOLINT(modernize-use-nullptr)
};

// What a call on the host that blocks waited for.
struct CallWait {
  int64_t call_ns;  // when the call began
  uint32_t thread;  // index in Timeline::threads
  uint64_t before;  // correlation of the work

  auto operator<=>(const CallWait&) const = default;  // NOLINT(modernize-use-nullptr)
};

// A send or receive that a kernel of NCCL does.
struct PeerMessage {
  uint64_t correlation;   // of the kernel
  uint64_t communicator;  // the same on all ranks
  int32_t rank, peer;     // in it
  int64_t bytes;          // -1: not known
  bool receives;
};

enum class ElementType : uint8_t { kUnknown, kDouble, kSingle, kHalf, kBfloat16, kFp8, kInt8 };

// What an operator asked for and a piece of work computes: `batch` times [m, k] by [k, n].
struct MatrixProduct {
  int64_t batch = 0;  // 0: the shape is not known
  int64_t m = 0, n = 0, k = 0;
  ElementType type = ElementType::kUnknown;  // of both operands
  bool is_plain = true;                      // else part of something else, as a convolution

  auto operator<=>(const MatrixProduct&) const = default;  // NOLINT(modernize-use-nullptr)
};

// Which product a piece of work computes.  Jobs repeat a few shapes millions of times.
struct WorkProduct {
  uint64_t correlation;  // of the work; where there are several pieces, of the main one
  uint32_t product;      // in Timeline::products
};

// A part of the job's work on the host, as the job calls it.
struct HostRange {
  int64_t start_ns;
  int64_t end_ns;
  uint32_t name;    // in Timeline::names
  uint32_t thread;  // index in Timeline::threads
};

// A GPU, as the profiler describes it.
struct DeviceModel {
  int32_t device = -1;
  int32_t major = 0, minor = 0;  // compute capability; 0: not known
  std::string name;              // "NVIDIA H100 80GB HBM3"
};

// Time that a thread spent in calls that wait for a GPU, since it last gave one work.
struct ThreadWait {
  uint32_t thread;  // index in Timeline::threads
  int64_t until_ns;
  int64_t ns;
};

// Work that had been launched, and waited for nothing but the legacy default stream or on it.
struct LegacyWait {
  int64_t begin_ns, end_ns;
  uint64_t legacy;  // correlation of the work on the legacy stream
  int32_t device;
};

// Who says which rank a timeline is of.
enum class RankSource : uint8_t {
  kTold,      // whoever recorded it
  kFileName,  // only the name of its file
  kGroups,    // it is the only one that the groups leave, whose collectives it ran
  kNobody,    // the number was given to it here, and is no rank of the job
};

// Launches without work of the GPU: a profiler dropped it, or ended first.
struct MissingWork {
  size_t launches = 0;  // of kernels and graphs
  size_t missing = 0;   // of these, without work
  size_t at_end = 0;    // of these, after the last launch that has work
};

// Of one process.
struct Timeline {
  std::string source;       // file
  std::optional<int> rank;  // global
  RankSource rank_from = RankSource::kTold;
  std::optional<int> world_size;
  std::string host;           // whose clock it has; empty: not known
  int64_t base_ns = 0;        // time 0 of the trace in ns since the epoch
  std::vector<GpuWork> work;  // in the order of their starts
  // `work` is only what calls prove: while the GPU may have had some.  Gaps are lower bounds.
  bool by_host = false;
  std::vector<GpuWork> entries;          // then: of collectives, from when the host entered them
  std::vector<ThreadWait> thread_waits;  // then: of each thread in their order
  std::vector<HostCall> calls;           // in the order of their starts
  std::vector<uint32_t> call_stacks;     // of recorded ones: in ProcessTrace::stacks; 0: none
  std::vector<CallContext> contexts;     // of `calls`, in their order; empty: none is known
  // The same: the innermost frame of the user's in which the thread was for most of the time since
  // its call before, in `names`.
  std::vector<uint32_t> spent_in;
  std::vector<CollectiveNote> collectives;  // by correlation
  std::vector<MatrixProduct> products;      // distinct ones, in no order
  std::vector<WorkProduct> work_products;   // by correlation
  std::vector<DeviceModel> models;          // those known
  std::vector<LegacyWait> legacy_waits;     // in no order; of recorded calls only
  std::vector<WorkWait> waits;              // by correlation
  bool knows_waits = false;                 // `waits` has all there were
  std::vector<CallWait> call_waits;         // in their order; of calls that wait for an event
  std::vector<PeerMessage> messages;        // by correlation; those known
  std::vector<Span> profiling;              // while the profiler worked for itself; in no order
  // Steps as the job marked them: from each start to the next.  Ns, in order.
  std::vector<int64_t> step_starts;
  std::vector<int64_t> step_numbers;  // of these, as the job counts; empty: from 0
  std::vector<HostRange> ranges;      // of recorded jobs; in no order
  MissingWork missing;                // in a Profile: missing_work()
  std::vector<std::string> names;
  std::vector<std::string> threads;

  // Of one of `calls`.
  CallContext context_of(const HostCall& call) const {
    return contexts.empty() ? CallContext() : contexts[static_cast<size_t>(&call - calls.data())];
  }
};

}  // namespace traintrace
