// What a trace says of its process at this moment: a few words of its tables.  Nothing else of it
// is read, so that a thousand of them can be read every second.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/reader/files/trace_bytes.h"
#include "analyzer/reader/process_trace.h"
#include "analyzer/reader/sections/layout.h"
#include "analyzer/reader/sections/schema.h"
#include "analyzer/reader/trace_clock.h"

namespace traintrace {

struct LiveCall {
  uint16_t call = 0;  // id of the schema
  uint32_t stack = 0;
  TimeNs time = 0;  // when it was entered; 0: there is none
};

struct LiveThread {
  int tid = 0;
  std::string name;
  uint64_t events = 0;   // records written
  uint64_t queries = 0;  // polls since the last record of another sort
  LiveCall open;         // that it is in: of NCCL, else of CUDA
  LiveCall last;         // entered or polled last
};

struct LiveCommunicator {
  uint64_t id = 0;
  std::string name;  // empty: the job gave it none
  int size = -1;     // -1: not known
  int device = -1;
  uint64_t collectives = 0;  // issued: the sequence of the last one
  TimeNs last = 0;           // when its last operation was entered
  bool ended = false;        // destroyed or aborted
  size_t element = 0;        // in the file's table
};

struct LiveOperation {
  uint64_t sequence = 0;
  TimeNs enter = 0;
  uint64_t count = 0;
  uint16_t call = 0;
  uint32_t stack = 0;
  bool collective = true;
  bool runs = true;       // neither captured into a graph nor failed
  bool finished = false;  // on the GPU, as far as the job has asked
};

struct LiveMemory {
  int device = -1;
  uint64_t allocated = 0, reserved = 0, peak = 0;  // bytes
};

struct LiveSample {
  TimeNs last_alive = 0;  // stored each second
  TimeNs exited = 0;      // 0: it has left no exit record
  int exit_status = 0;
  bool gone = false;     // the kernel told the keeper that it has ended
  int wait_status = -1;  // as wait(2) has it; -1: not known
  bool is_copy = false;  // what was copied from the process's memory, not that memory
  std::vector<LiveThread> threads;
  std::vector<LiveCommunicator> communicators;  // not those of which this rank is no member
  std::vector<LiveMemory> memory;               // of PyTorch's allocator, else of CUDA's; by device
};

class LiveProcess {
 public:
  // `tables`: the same trace, read once with all its tables.
  static Result<LiveProcess> open(const ProcessTrace& tables);

  // Nothing: it cannot be read any more.
  std::optional<LiveSample> sample();
  // The last ones of that communicator (format::kRecentOperations at most), by entry.  After
  // sample().
  std::vector<LiveOperation> operations(const LiveCommunicator& communicator) const;
  // ncclAllReduce
  const CallSchema& call(uint16_t id) const;
  const format::FileHeader& header() const { return layout_.header; }

 private:
  LiveProcess(TraceBytes file, Layout layout, std::shared_ptr<const Schema> schema);
  bool read_header();
  void read_threads(LiveSample& sample);
  void read_communicators(LiveSample& sample);
  void read_memory(LiveSample& sample);
  uint64_t allocated_by_calls() const;
  bool is_finished(const format::Operation& operation) const;
  template <class T, class InUse, class Same, class Take>
  void read_used(format::SectionKind kind, size_t& extent, InUse in_use, Same same, Take take);

  TraceBytes file_;
  Layout layout_;
  std::shared_ptr<const Schema> schema_;
  std::optional<TraceClock> clock_;
  // Elements of tables that were in use: the tables are holes beyond.
  size_t threads_ = 0, communicators_ = 0;
  int samples_ = 0;
  std::vector<LiveMemory> last_memory_;
};

}  // namespace traintrace
