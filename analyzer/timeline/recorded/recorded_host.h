// What recorded calls alone say of when GPUs had work, for traces without a timeline of the GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/reader/process_trace.h"
#include "analyzer/timeline/recorded/host_progress.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

class RecordedHost {
 public:
  // `trace` outlives it; `base_ns` is time 0 of its timeline.
  RecordedHost(const ProcessTrace& trace, TimeNs base_ns);

  // A call in the order of their times; `id`: of the outermost one around it, which is no other's.
  // True: it gives work to a GPU that certainly had none.
  bool called(const CallRecord& event, uint64_t id);
  // True: of a collective, whose entry counts.
  bool entered_collective(const CallRecord& event, uint64_t id);
  void finish(Timeline& timeline);

 private:
  HostProgress::Stream stream_of(const CallRecord& event) const;
  void returned(const CallRecord& event);

  // Where that was not recorded, the process's only one: it can only make that look busier.
  int device_of(const CallRecord& event) const;

  const ProcessTrace& trace_;
  const TimeNs base_ns_;
  int only_device_ = -1;  // -1: there are several
  HostProgress progress_;
  int captures_ = 0;
  std::vector<HostProgress::Stream> in_group_;
  std::vector<GpuWork> entries_;
};

// Why nothing may be concluded from its calls; empty: nothing is known against it.
std::string host_times_refused(const ProcessTrace& trace);

}  // namespace traintrace
