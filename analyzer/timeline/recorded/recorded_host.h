// What recorded calls alone say of when GPUs had work, for traces without a timeline of the GPU.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/reader/process_trace.h"
#include "analyzer/timeline/recorded/host_progress.h"
#include "analyzer/timeline/recorded/repeated_work.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

class RecordedHost {
 public:
  enum class Gives : uint8_t {
    kNothing,
    kMore,        // work to a GPU that may have some
    kAfterPause,  // the same, and the host had given it nothing for a while
    kFirst,       // work to a GPU that certainly had none
  };

  // `trace` outlives it; `base_ns` is time 0 of its timeline.
  RecordedHost(const ProcessTrace& trace, TimeNs base_ns);

  // A call in the order of their times; `id`: of the outermost one around it, which is no other's.
  Gives called(const CallRecord& event, uint64_t id);
  // Whether it returns only when a GPU is done with what it had.
  bool waits(const CallRecord& event) const;
  // Whether the GPU had nothing but that copy to do while the host was in it.
  bool copied_alone(uint64_t id) const { return copied_alone_.contains(id); }
  // True: of a collective, whose entry counts.
  bool entered_collective(const CallRecord& event, uint64_t id);
  void finish(Timeline& timeline);

 private:
  HostProgress::Stream stream_of(const CallRecord& event) const;
  void returned(const CallRecord& event);
  void allocated(const CallRecord& event);
  bool has_copied_to_host(const CallRecord& event) const;
  bool is_cudas(uint64_t address) const;
  bool copies_from_pageable(const CallRecord& event) const;
  void note_copy(const CallRecord& event, Gives gives, uint64_t id);
  bool is_in_copy(const CallRecord& event) const;
  // The device that giving back its memory waits for; none: it does not wait, or is not known to.
  HostProgress::Weight weight_of(const CallRecord& event) const;
  std::optional<int> device_of_freed(const CallRecord& event) const;
  // The same for the same work.
  uint64_t what_of(const CallRecord& event) const;
  Gives give(const CallRecord& event, const HostProgress::Stream& stream,
             HostProgress::Weight weight, uint64_t id);

  // Where that was not recorded, the process's only one: it can only make that look busier.
  int device_of(const CallRecord& event) const;

  const ProcessTrace& trace_;
  const TimeNs base_ns_;
  int only_device_ = -1;  // -1: there are several
  HostProgress progress_;
  RepeatedWork repeated_;
  int captures_ = 0;
  std::unordered_map<uint64_t, int> allocated_on_;  // devices, by address
  bool knows_all_memory_ = true;
  std::map<uint64_t, uint64_t> cudas_;  // sizes of the memory that CUDA knows of, by address
  std::vector<HostProgress::Stream> in_group_;
  std::map<uint32_t, TimeNs> in_nccl_;  // by thread: until when it is in a call of NCCL
  std::vector<GpuWork> entries_;
  struct Copy {
    uint64_t id;
    uint32_t thread;
    int device;
    TimeNs until;
  };
  std::optional<Copy> copy_;                           // the last that an idle GPU was given
  std::unordered_map<uint64_t, TimeNs> copied_alone_;  // by id: until when
};

// Why nothing may be concluded from its calls; empty: nothing is known against it.
std::string host_times_refused(const ProcessTrace& trace);

}  // namespace traintrace
