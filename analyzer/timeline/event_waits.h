// Which work waits for which by events and by the rules of the legacy default stream, as the calls
// said it.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

// All calls in the order in which they were made, of all threads.
class EventWaits {
 public:
  // Default streams have the same handle on each device, that of a thread in each thread.
  struct Stream {
    uint64_t handle = 0;
    int device = -1;      // of handles that are no pointers, else -1
    uint32_t thread = 0;  // of the stream of a thread, else 0

    auto operator<=>(const Stream&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  // As the job has the handle (0, 1: the legacy default stream; 2: that of the thread).
  static Stream stream_of(uint64_t handle, int device, uint32_t thread);

  // `is_blocking`: it does what the legacy default stream of `device` wants.
  void created(const Stream& stream, bool is_blocking, int device);
  void event_created(uint64_t event);
  // `is_graph`: its nodes have streams of their own.
  void launched(const Stream& stream, uint64_t correlation, bool is_graph = false);
  // On which stream is not known.
  void launched_somewhere(uint64_t correlation);
  void recorded(uint64_t event, const Stream& stream);
  void recorded_elsewhere(uint64_t event);
  void waits_for(const Stream& stream, uint64_t event);
  // For something else: WorkWait::kUnknown or kPeers.
  void waits_for_other(const Stream& stream, uint64_t what);
  // All streams, for something that is not known.
  void all_wait_for_unknown();
  // What is captured into a graph orders nothing now.
  void capture_begins(const Stream& stream);
  void capture_ends(const Stream& stream);

  // The newest work of each stream that had to be done before the event was.  Empty: none had, or
  // it is not known.
  std::vector<uint64_t> awaited_by(uint64_t event) const;

  // By correlation.
  std::vector<WorkWait> take();

 private:
  // The newest work of each stream that something waits for; older ones are done before it.
  using Sources = std::map<Stream, uint64_t>;
  struct Point {  // in the order of a stream
    Sources sources;
    Sources legacy;  // by the rules of the legacy default stream
    bool unknown = false, peers = false;
  };
  struct State {
    uint64_t newest = 0;  // work; 0: none yet
    bool newest_is_graph = false;
    Point pending;   // what the next work waits for
    Sources waited;  // what earlier work has waited for
    Sources waited_by_legacy;
    bool is_blocking = false;
    int device = -1;
    uint64_t capture = 0;  // its number; 0: none
  };
  struct Event {
    Point point;
    uint64_t capture = 0;
  };

  static void add(const Sources& from, Sources& to);
  static void add(const Point& from, Point& to);
  static bool is_legacy(const Stream& stream) { return stream.handle == 0; }
  // That the legacy default stream waits for the others and they for it.
  void follow_legacy(const Stream& stream, State& state);
  static void follow(const Point& from, Point& to);
  Point after(const Stream& stream, const State& state) const;

  std::map<Stream, State> streams_;
  std::unordered_map<uint64_t, Event> events_;
  std::vector<WorkWait> waits_;
  uint64_t captures_ = 0;
};

}  // namespace traintrace
