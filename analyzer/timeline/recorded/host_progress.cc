#include "analyzer/timeline/recorded/host_progress.h"

#include <algorithm>

#include "analyzer/thresholds.h"

namespace traintrace {

void HostProgress::merge(const Positions& from, Positions& to) {
  for (const auto& [stream, position] : from) {
    uint64_t& known = to[stream];
    known = std::max(known, position);
  }
}

HostProgress::Positions HostProgress::positions_of(const Stream& stream) const {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) {
    return {};
  }
  Positions positions = found->second.waited;
  positions[stream] = found->second.enqueued;
  return positions;
}

void HostProgress::is_unknown(const Stream& stream, int device) {
  enqueued(stream, device, 0, 0);
}

bool HostProgress::enqueued(const Stream& stream, int device, int64_t time_ns, uint64_t launch,
                            Weight weight) {
  advance(time_ns);
  State& state = streams_[stream];
  state.device = state.enqueued == 0 ? device : state.device;
  device_unknown_ = device_unknown_ || state.device < 0;
  Device& on = devices_[state.device];
  const bool begins = on.streams == 0;
  on.streams += state.enqueued == state.done ? 1 : 0;
  ++state.enqueued;
  state.work = weight == Weight::kBrief ? state.work : state.enqueued;
  on.last_ns = time_ns;
  if (begins) {
    on.begin_ns = time_ns;
    on.launch = launch;
  }
  return begins;
}

void HostProgress::mark(const Stream& stream, uint64_t mark) {
  State& state = streams_[stream];
  state.marks.push_back({state.enqueued, mark, state.waited});
}

void HostProgress::recorded(uint64_t event, const Stream& stream) {
  events_[event] = positions_of(stream);
}

void HostProgress::forget(uint64_t event) {
  events_.erase(event);
}

void HostProgress::waits_for(const Stream& stream, uint64_t event) {
  if (const auto found = events_.find(event); found != events_.end()) {
    merge(found->second, streams_[stream].waited);
  }
}

void HostProgress::synchronised(const Stream& stream, int64_t enter_ns, int64_t leave_ns) {
  advance(enter_ns);
  returning_.emplace(leave_ns, Wait{enter_ns, positions_of(stream)});
}

void HostProgress::synchronised_event(uint64_t event, int64_t enter_ns, int64_t leave_ns) {
  advance(enter_ns);
  if (const auto found = events_.find(event); found != events_.end()) {
    returning_.emplace(leave_ns, Wait{enter_ns, found->second});
  }
}

void HostProgress::synchronised_device(int device, int64_t enter_ns, int64_t leave_ns) {
  advance(enter_ns);
  Positions positions;
  for (const auto& [stream, state] : streams_) {
    if (state.device == device) {
      merge(positions_of(stream), positions);
    }
  }
  returning_.emplace(leave_ns, Wait{enter_ns, std::move(positions)});
}

void HostProgress::advance(int64_t now_ns) {
  while (!returning_.empty() && returning_.begin()->first <= now_ns) {
    const auto first = returning_.begin();
    complete(first->second.positions, first->second.enter_ns, first->first);
    returning_.erase(first);
  }
}

// Of all that such a wait is for, nothing but brief work may have ended after it.
bool HostProgress::is_last_work(const Stream& stream, const Mark& mark,
                                const Positions& positions) const {
  return std::all_of(positions.begin(), positions.end(), [&](const auto& waited) {
    const auto found = streams_.find(waited.first);
    if (found == streams_.end()) {
      return true;
    }
    const auto before = mark.after.find(waited.first);
    const uint64_t ended_before = waited.first == stream       ? mark.position
                                  : before == mark.after.end() ? 0
                                                               : before->second;
    return found->second.work <= std::max(found->second.done, ended_before);
  });
}

void HostProgress::complete(const Positions& positions, int64_t enter_ns, int64_t time_ns) {
  for (const auto& [stream, position] : positions) {
    const auto found = streams_.find(stream);
    for (size_t i = 0; found != streams_.end() && i < found->second.marks.size(); ++i) {
      const Mark& mark = found->second.marks[i];
      if (time_ns - enter_ns >= kNoiseNs && mark.position <= position &&
          is_last_work(stream, mark, positions)) {
        seen_.insert(mark.id);
      }
    }
  }
  for (const auto& [stream, reached] : positions) {
    const uint64_t position = reached;  // no lambda may take part of a binding
    const auto found = streams_.find(stream);
    if (found == streams_.end() || found->second.done >= position) {
      continue;
    }
    State& state = found->second;
    state.done = position;
    std::erase_if(state.marks, [&](const Mark& mark) {
      const bool done = mark.position <= position;
      if (done) {
        done_[mark.id] = time_ns;
      }
      return done;
    });
    Device& device = devices_[state.device];
    if (state.done == state.enqueued && --device.streams == 0) {
      busy_.push_back({state.device, device.begin_ns, time_ns, device.launch,
                       time_ns - enter_ns >= kNoiseNs ? End::kBlocked : End::kSeen});
    }
  }
}

std::vector<HostProgress::Busy> HostProgress::finish() {
  advance(INT64_MAX);
  if (device_unknown_) {  // it may be any device's, which then had something to do
    return {};
  }
  for (auto& [number, device] : devices_) {
    if (device.streams != 0) {
      busy_.push_back({number, device.begin_ns, device.last_ns, device.launch});
    }
  }
  return std::move(busy_);
}

std::optional<int64_t> HostProgress::done_ns(uint64_t mark) const {
  const auto found = done_.find(mark);
  return found == done_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace traintrace
