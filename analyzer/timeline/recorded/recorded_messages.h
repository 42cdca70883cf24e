// The sends and receives that recorded kernels of NCCL do.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "analyzer/reader/process_trace.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

class RecordedMessages {
 public:
  // `trace` outlives it.
  explicit RecordedMessages(const ProcessTrace& trace) : trace_(trace) {}

  // A call of any kind, in the order of their times.
  void called(const CallRecord& event);
  // By `event`, the innermost call that is open, within `outermost`.
  void launched(const CallRecord& outermost, const CallRecord& event, uint64_t correlation);
  // By correlation.  `work`: what there is of the GPU.
  std::vector<PeerMessage> take(const std::vector<GpuWork>& work);

 private:
  struct Call {
    PeerMessage message;
    uint64_t stream;
  };
  struct Thread {
    int depth = 0;            // of groups
    std::vector<Call> calls;  // of the group, or alone
  };
  void add(const CallRecord& event, Thread& thread) const;

  const ProcessTrace& trace_;
  std::map<uint32_t, Thread> threads_;
  std::vector<PeerMessage> messages_;
};

}  // namespace traintrace
