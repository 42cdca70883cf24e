// When a GPU certainly had nothing to do, from the calls of a process alone: once a synchronisation
// has returned, what it waited for is done, and until the next launch nothing else is there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analyzer/timeline/event_waits.h"

namespace traintrace {

// All calls of all threads in the order in which they were entered; times in ns.
class HostProgress {
 public:
  using Stream = EventWaits::Stream;
  // kBlocked: the host was in a call that waited for it.
  enum class End : uint8_t { kNotSeen, kSeen, kBlocked };
  // While something may have been running: from a launch until it is known that all is done.
  struct Busy {
    int device;
    int64_t begin_ns, end_ns;
    uint64_t launch;  // what began it; 0: before the records begin
    End end = End::kNotSeen;
  };

  // kBrief: over as soon as it begins, next to what it stands behind: a copy of a few bytes.
  enum class Weight : uint8_t { kWork, kBrief };

  // The stream may have work from before the records begin.
  void is_unknown(const Stream& stream, int device);
  // True: the device had nothing to do.
  bool enqueued(const Stream& stream, int device, int64_t time_ns, uint64_t launch,
                Weight weight = Weight::kWork);
  // What is enqueued now, to be asked for again by `done_ns`.
  void mark(const Stream& stream, uint64_t mark);
  void recorded(uint64_t event, const Stream& stream);
  void forget(uint64_t event);
  void waits_for(const Stream& stream, uint64_t event);
  // It returned at `leave_ns`; what came to the stream after `enter_ns` it did not wait for.
  void synchronised(const Stream& stream, int64_t enter_ns, int64_t leave_ns);
  void synchronised_event(uint64_t event, int64_t enter_ns, int64_t leave_ns);
  void synchronised_device(int device, int64_t enter_ns, int64_t leave_ns);

  // In order of their ends.  What was never seen to be done is busy until its last launch.
  std::vector<Busy> finish();
  // When it was seen to be done; none: never.
  std::optional<int64_t> done_ns(uint64_t mark) const;
  // Whether the host saw its end when it came: in a call that blocked, and that waited for nothing
  // but brief work beyond the last before the mark.
  bool end_was_seen(uint64_t mark) const { return seen_.contains(mark); }

 private:
  using Positions = std::map<Stream, uint64_t>;  // so many pieces of work of each are meant
  struct Mark {
    uint64_t position, id;
    Positions after;  // what its work has waited for
  };
  struct State {
    int device = -1;
    uint64_t enqueued = 0, done = 0;
    uint64_t work = 0;        // the last that is not brief
    Positions waited;         // what its work has waited for
    std::vector<Mark> marks;  // those not done
  };
  struct Device {
    size_t streams = 0;  // that are not known to be empty
    int64_t begin_ns = 0, last_ns = 0;
    uint64_t launch = 0;
  };

  void advance(int64_t now_ns);
  void complete(const Positions& positions, int64_t enter_ns, int64_t time_ns);
  bool is_last_work(const Stream& stream, const Mark& mark, const Positions& positions) const;
  Positions positions_of(const Stream& stream) const;
  static void merge(const Positions& from, Positions& to);

  std::map<Stream, State> streams_;
  std::map<int, Device> devices_;
  std::unordered_map<uint64_t, Positions> events_;
  struct Wait {
    int64_t enter_ns;
    Positions positions;
  };
  std::multimap<int64_t, Wait> returning_;  // by when the call returns
  std::vector<Busy> busy_;
  bool device_unknown_ = false;  // of some work
  std::unordered_map<uint64_t, int64_t> done_;
  std::unordered_set<uint64_t> seen_;
};

}  // namespace traintrace
