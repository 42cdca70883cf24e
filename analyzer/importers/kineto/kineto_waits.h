// What work waits for, and messages between ranks, in traces of PyTorch's profiler.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/importers/kineto/kineto_event.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace::kineto {

// What rows of cudaStreamWaitEvent say.  Correlations are numbers of calls in their order, so what
// was launched before an event was recorded has a smaller one.
class StreamWaits {
 public:
  void add(const Event& event);
  // A call of the host, by which other reasons to wait are told.
  void add_call(const Event& event);
  // `timeline`: with its work.  Says nothing where the profiler wrote no such rows.
  void finish(Timeline& timeline);

 private:
  struct Wait {
    uint64_t correlation;
    int64_t stream, device;
    int64_t awaited_stream, record;  // negative: not known
  };
  std::vector<Wait> waits_;
  std::vector<uint64_t> others_;  // calls that let some stream wait for something else
};

// As our own exports say it, for kernel `correlation`.
std::string told_waits(const std::vector<WorkWait>& waits, uint64_t correlation);
void add_told_waits(std::string_view text, uint64_t correlation, Timeline& timeline);
std::string told_messages(const Timeline& timeline, uint64_t correlation);
void add_told_messages(std::string_view text, uint64_t correlation, Timeline& timeline);

}  // namespace traintrace::kineto
