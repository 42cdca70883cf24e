// For which communicator NCCL took memory, and inside which call: it takes some when a communicator
// is made, and more when a collective is the first that needs a connection.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct NcclUse {
  size_t communicator = 0;  // index in the trace's communicators + 1; 0: cannot be told
  std::string call;         // of NCCL; empty: not known
};

class NcclCalls {
 public:
  // By its tables, and by what it has of events if `times` are all that will be asked for.
  explicit NcclCalls(const ProcessTrace& trace, std::vector<TimeNs> times = {});
  // Of memory at `address` that was had at `time`.
  NcclUse at(TimeNs time, int device, uint64_t address) const;

 private:
  struct Call {
    TimeNs enter = 0, leave = 0;  // 0: it never returned
    uint32_t thread = 0;
    std::string name;
    std::set<uint64_t> communicators;  // index + 1
  };
  struct Allocation {
    TimeNs enter = 0, leave = 0;
    uint32_t thread = 0;
  };
  void add_tables();
  void add_events();
  bool is_asked_for(const CallRecord& event) const;
  NcclUse only_one(const std::vector<const Call*>& calls, int device) const;

  const ProcessTrace& trace_;
  std::vector<TimeNs> times_;
  std::vector<Call> tables_, events_;
  std::unordered_multimap<uint64_t, Allocation> allocations_;  // by address
};

// "NCCL dp", "NCCL communicator 2"; "NCCL" where it cannot be told.
std::string nccl_name(const ProcessTrace& trace, size_t communicator);

}  // namespace traintrace
