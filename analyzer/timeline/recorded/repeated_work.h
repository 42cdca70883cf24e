// How long a GPU may have been busy with what its host gave it in one go, where nothing waits for
// the end: as long as the same work took where its end was seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "analyzer/timeline/recorded/host_progress.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

class RepeatedWork {
 public:
  // Times of the call that gives it.
  struct Given {
    int64_t enter_ns, leave_ns;
    uint64_t launch;  // as HostProgress::Busy has it
    uint64_t what;    // the same for the same work
  };
  enum class Before : uint8_t { kMayBeBusy, kIsIdle };

  // In the order of their times, to the device of that number.  True: it is the first after a
  // pause, or on an idle GPU.
  bool given(int number, const Given& work, Before before);
  // A call that waits for some of it returned: until then there was some.
  void waited(int64_t leave_ns);
  // Some work waits for other ranks, the host or another process: how long it takes says nothing.
  void depends_on_others() { depends_ = true; }

  struct Piece {
    int device;
    Span span;
    uint64_t launch;
    EndKnown end;
  };
  // `busy` where it is not known to be over sooner; ends at which it is taken to be are kAtLatest.
  std::vector<Piece> pieces(const std::vector<HostProgress::Busy>& busy);

 private:
  // What was given without a pause.
  struct Batch {
    int64_t begin_ns;  // when the first of it was given
    int64_t given_ns;  // when all of it had been
    uint64_t launch;
    uint64_t what;
    size_t count;  // pieces of work
  };
  struct Device {
    std::vector<Batch> batches;
    std::vector<uint64_t> beginnings;  // of the last one: what it was with each piece
  };
  struct Lengths {
    std::unordered_map<uint64_t, int64_t> known;  // by what it is
    int64_t longest_ns = 0;
    size_t count = 0;  // of the longest
    int64_t of(const Batch& batch) const;
  };

  static std::span<const Batch> given_in(const Device& device, const HostProgress::Busy& busy);
  void keep_beginnings(Device& device);
  Lengths lengths(const std::vector<HostProgress::Busy>& busy) const;
  void cut(const HostProgress::Busy& busy, const Lengths& lengths,
           std::vector<Piece>& pieces) const;

  bool depends_ = false;
  std::map<int, Device> devices_;
  // Of batches after which the GPU was seen to be idle, by what they are.
  std::unordered_map<uint64_t, std::vector<uint64_t>> beginnings_;
};

}  // namespace traintrace
