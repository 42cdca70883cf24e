// What PyTorch's caching allocator did, one thing after the other: its reports, and its own calls
// of CUDA.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "analyzer/reader/sections/stored_reports.h"

namespace traintrace {

enum class AllocatorAct : uint8_t {
  kTake,     // a block is in use
  kGive,     // it is not any more
  kMap,      // a segment, or a piece of one
  kRefused,  // there was no memory for it
  kFailed,   // and so the request failed
  kUnmap,
  kMark,    // an event behind work of another stream, which the next block given back waits for
  kPassed,  // that event, or another of the job
};

struct AllocatorEvent {
  AllocatorAct act;
  TimeNs time = 0;
  uint32_t thread = 0;
  uint32_t stack = 0;
  int device = -1;
  uint64_t address = 0;  // or event
  uint64_t bytes = 0;    // 0 of kUnmap: all of the segment
  bool piece = false;    // of a segment that is mapped piece by piece
  bool has_totals = false;
  uint64_t allocated = 0, reserved = 0;  // afterwards, by its own account
  uint32_t stream = 0;                   // of kMark: index in streams + 1
};

// That of a call for PyTorch's allocator: threads that never chose a device, such as autograd's,
// are on one all the same.  -1: it may be any of several.
int allocator_device(const ProcessTrace& trace, uint8_t device);

class AllocatorEvents {
 public:
  explicit AllocatorEvents(const ProcessTrace& trace);
  std::optional<AllocatorEvent> of(const CallRecord& record, std::span<const uint64_t> values);

  template <class See>
  void each(See see) {
    each_event(trace_, [&](const CallRecord& record, std::span<const uint64_t> values) {
      if (const auto event = of(record, values)) {
        see(*event);
      }
    });
  }

 private:
  struct Form {
    std::optional<AllocatorAct> act;
    bool piece = false;
    bool of_anybody = false;
    int address = -1, bytes = -1, allocated = -1, reserved = -1, stream = -1;  // among the values
  };
  static Form form_of(const CallSchema& schema);
  bool is_pytorchs(const CallRecord& record);

  const ProcessTrace& trace_;
  std::vector<Form> forms_;  // by call
  std::unordered_map<uint64_t, bool> callers_;
};

}  // namespace traintrace
