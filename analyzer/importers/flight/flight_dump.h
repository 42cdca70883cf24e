// A dump of PyTorch's Flight Recorder as one process: what it says by itself.  What it leaves open,
// the dumps of the other ranks may tell (flight_recorder.h).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/importers/plain_value.h"
#include "analyzer/reader/process_trace.h"
#include "analyzer/reader/result.h"

namespace traintrace {

// Several collectives called as one, of which only the whole has an entry.  Before PyTorch 2.6 each
// of them raised the number of the group, too.
struct CoalescedCall {
  uint64_t sequence = 0;  // as the entry has it: of the last of them
  uint64_t more = 0;      // by how much more than one these, and all before, raised it in all
};

// A process group; the element of the same index in ProcessTrace::communicators stands for it.
// How much a rank gave to an all-to-all, and had room for.
struct FlightExchange {
  uint64_t index = 0;  // OperationText::index
  uint64_t sent = 0;
  uint64_t received = 0;
};

struct FlightGroup {
  std::string name;         // pg_uid: the same on all ranks
  std::vector<int> ranks;   // by rank in the group; empty: not said
  int64_t number = -1;      // pg_id, of this process
  bool recorded = false;    // an entry is about it
  bool with_peers = false;  // sends and receives were counted on it
  // By pg_status: the number of the last operation called, begun and complete, which counts
  // collectives in one way and sends and receives in another.
  std::optional<uint64_t> enqueued, started, completed;
  std::vector<CoalescedCall> coalesced;   // by sequence
  std::vector<FlightExchange> exchanges;  // that are not complete
};

struct FlightDump {
  ProcessTrace trace;
  std::vector<FlightGroup> groups;
  std::optional<int> rank;   // where the dump itself says so; later of whom it is taken to be
  bool active_only = false;  // records between others are left out, since they are complete
  // Messages that were not issued together with others, though completed records are left out: the
  // record after them is there and closes nothing.  By group, their places in `recent`.
  std::map<size_t, std::set<size_t>> single_messages;
  bool begins = false;  // its first record is the first of its process
  bool whole = true;    // every send and receive of the process is in it
  TimeNs first = 0;     // of all times in it
  TimeNs last = 0;
  TimeNs made = 0;     // when it was made, as entries show that only the dump itself saw; 0: none
  size_t retired = 0;  // entries that are retired and have times of their start and end
  size_t apart = 0;  // of these, how many were seen to start some time before they were seen to end
  size_t long_apart = 0;
  TimeNs deadline = 0;  // when the first operation that is not finished would exceed its time limit
  TimeNs limit = 0;     // the longest of those
};

// What is said of a file that might be such a dump, or of another tool, and is not.
inline constexpr const char* kOfNoKnownKind =
    "expected a dump of PyTorch's Flight Recorder (version and entries) or a Kineto profile "
    "(traceEvents), found neither";

bool is_flight_dump(const Value& root);
Result<FlightDump> flight_dump(const Value& root, const std::string& file);

}  // namespace traintrace
