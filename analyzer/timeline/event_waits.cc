#include "analyzer/timeline/event_waits.h"

#include <algorithm>
#include <utility>

namespace traintrace {
namespace {

constexpr uint64_t kLegacy = 0;
constexpr uint64_t kOfThread = 2;  // cudaStreamPerThread; 1 is cudaStreamLegacy

}  // namespace

EventWaits::Stream EventWaits::stream_of(uint64_t handle, int device, uint32_t thread) {
  if (handle > kOfThread) {
    return {handle};
  }
  return handle == kOfThread ? Stream{kOfThread, device, thread} : Stream{kLegacy, device};
}

// A handle may have been another stream's.
void EventWaits::created(const Stream& stream, bool is_blocking, int device) {
  State& state = streams_[stream];
  state = {};
  state.is_blocking = is_blocking;
  state.device = device;
}

// Waiting for one that was never recorded is no waiting.
void EventWaits::event_created(uint64_t event) {
  events_[event] = {};
}

void EventWaits::add(const Sources& from, Sources& to) {
  for (const auto& [stream, work] : from) {
    uint64_t& newest = to[stream];
    newest = std::max(newest, work);  // correlations grow
  }
}

void EventWaits::add(const Point& from, Point& to) {
  add(from.sources, to.sources);
  to.unknown = to.unknown || from.unknown;
  to.peers = to.peers || from.peers;
}

EventWaits::Point EventWaits::after(const Stream& stream, const State& state) const {
  Point point = state.pending;
  add(point.legacy, point.sources);
  point.legacy.clear();
  if (state.newest != 0) {
    point.sources[stream] = state.newest;
  }
  return point;
}

void EventWaits::follow(const Point& from, Point& to) {
  add(from.sources, to.legacy);
  to.unknown = to.unknown || from.unknown;
  to.peers = to.peers || from.peers;
}

void EventWaits::follow_legacy(const Stream& stream, State& state) {
  if (is_legacy(stream)) {
    for (const auto& [other, its] : streams_) {
      if (its.is_blocking && its.device == stream.device) {
        follow(after(other, its), state.pending);
      }
    }
  } else if (state.is_blocking) {
    const Stream legacy{kLegacy, state.device};
    if (const auto found = streams_.find(legacy); found != streams_.end()) {
      follow(after(legacy, found->second), state.pending);
    }
  }
}

void EventWaits::launched(const Stream& stream, uint64_t correlation, bool is_graph) {
  State& state = streams_[stream];
  if (state.capture != 0) {
    return;
  }
  follow_legacy(stream, state);
  if (state.newest != 0 && (is_graph || state.newest_is_graph)) {
    state.pending.sources[stream] = state.newest;
  }
  for (const auto& [source, work] : state.pending.sources) {
    uint64_t& waited = state.waited[source];
    if (work > waited && work != correlation) {
      waits_.push_back({correlation, waited = work});
    }
  }
  for (const auto& [source, work] : state.pending.legacy) {
    uint64_t& waited = state.waited_by_legacy[source];
    waited = std::max(waited, state.waited[source]);
    if (work > waited && work != correlation) {
      waits_.push_back({correlation, waited = work, true});
    }
  }
  if (state.pending.unknown) {
    waits_.push_back({correlation, WorkWait::kUnknown});
  }
  if (state.pending.peers) {
    waits_.push_back({correlation, WorkWait::kPeers});
  }
  state.pending = {};
  state.newest = correlation;
  state.newest_is_graph = is_graph;
}

void EventWaits::launched_somewhere(uint64_t correlation) {
  waits_.push_back({correlation, WorkWait::kUnknown});
}

void EventWaits::recorded(uint64_t event, const Stream& stream) {
  State& state = streams_[stream];
  if (state.capture != 0) {
    events_[event] = {{}, state.capture};
    return;
  }
  follow_legacy(stream, state);
  events_[event] = {after(stream, state), 0};
}

void EventWaits::recorded_elsewhere(uint64_t event) {
  Event unknown;
  unknown.point.unknown = true;
  events_[event] = std::move(unknown);
}

// Waiting for an event of a capture makes the stream a part of it.
void EventWaits::waits_for(const Stream& stream, uint64_t event) {
  State& state = streams_[stream];
  const auto found = events_.find(event);
  if (found != events_.end() && found->second.capture != 0) {
    state.capture = found->second.capture;
  } else if (state.capture == 0 && found != events_.end()) {
    add(found->second.point, state.pending);
  } else if (state.capture == 0) {
    state.pending.unknown = true;
  }
}

void EventWaits::waits_for_other(const Stream& stream, uint64_t what) {
  State& state = streams_[stream];
  if (state.capture == 0) {
    (what == WorkWait::kPeers ? state.pending.peers : state.pending.unknown) = true;
  }
}

void EventWaits::all_wait_for_unknown() {
  for (auto& [stream, state] : streams_) {
    state.pending.unknown = true;
  }
}

void EventWaits::capture_begins(const Stream& stream) {
  streams_[stream].capture = ++captures_;
}

void EventWaits::capture_ends(const Stream& stream) {
  const uint64_t ended = streams_[stream].capture;
  for (auto& [other, state] : streams_) {
    state.capture = state.capture == ended ? 0 : state.capture;
  }
  std::erase_if(events_,
                [&](const auto& event) { return ended != 0 && event.second.capture == ended; });
}

std::vector<uint64_t> EventWaits::awaited_by(uint64_t event) const {
  std::vector<uint64_t> awaited;
  const auto found = events_.find(event);
  if (found != events_.end() && found->second.capture == 0 && !found->second.point.unknown) {
    for (const auto& [stream, work] : found->second.point.sources) {
      awaited.push_back(work);
    }
  }
  return awaited;
}

std::vector<WorkWait> EventWaits::take() {
  std::sort(waits_.begin(), waits_.end());
  return std::move(waits_);
}

}  // namespace traintrace
