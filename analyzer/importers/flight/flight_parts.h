// Operations that were called as one: an entry for each part, which never gets done, and one that
// closes them, named "coalesced" or ALLGATHER_coalesced, whose state is that of them all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "analyzer/importers/flight/flight_entry.h"
#include "analyzer/reader/process_trace.h"
#include "format/hashes.h"

namespace traintrace {

class FlightParts {
 public:
  // The next entry of the group with that index, `recorded` operations of which are kept.  True: it
  // closes parts, which are those from first_part() on.
  bool add(size_t index, const FlightEntry& entry, size_t recorded) {
    limit_ = std::max(limit_, limit_of(entry));
    Open& open = open_[index];
    const bool closes = is_closed_by(open, entry);
    if (closes) {
      first_part_ = open.first;
      open = {};
    } else if (!continues(open, entry)) {
      settle(open);
      open = {};
      open.first = recorded;
    }
    if (!entry.finished() && !entry.retired) {
      ++open.pending;
      open.deadline = earlier(open.deadline, deadline_of(entry));
    }
    open.any = !closes;
    open.between_peers = entry.between_peers;
    open.collective = entry.collective;
    open.peer_sequence = entry.peer_sequence;
    if (closes) {
      settle(open);
      open = {};
    }
    return closes;
  }
  size_t first_part() const { return first_part_; }

  void finish() {
    for (const auto& [index, open] : open_) {
      settle(open);
    }
    open_.clear();
  }
  uint64_t pending() const { return pending_; }  // that nobody has seen to be done
  TimeNs deadline() const { return deadline_; }  // of the first of those; 0: it is not said
  TimeNs limit() const {
    constexpr TimeNs kUsual = 600'000'000'000;  // what PyTorch gives a group of NCCL
    return limit_ == 0 ? kUsual : limit_;
  }

  // An entry of that name with sizes is one call of several tensors, which has no parts.
  static bool is_closing(const FlightEntry& entry) {
    return entry.name == "coalesced" ||
           (entry.name.ends_with("_coalesced") && !has_sizes(entry.input_sizes));
  }

  // `group`: of all parts that it closes, from 1.
  static void close(const FlightEntry& closing, uint32_t group, OperationText& part) {
    const bool finished = closing.finished() || (part.flags & format::kFinished) != 0;
    part.flags =
        static_cast<uint8_t>(part.flags | format::kGrouped | (finished ? format::kFinished : 0));
    part.completed = std::max(part.completed, closing.completed);
    part.group = group;
    part.gpu = finished || closing.retired  ? GpuState::kUnknown
               : closing.state == "started" ? GpuState::kReached
                                            : GpuState::kPending;
  }

 private:
  // What may be closed by the next entry.
  struct Open {
    bool any = false;
    bool between_peers = false;
    int64_t collective = 0;
    int64_t peer_sequence = 0;
    size_t first = 0;
    uint64_t pending = 0;
    TimeNs deadline = 0;
  };

  static bool has_sizes(const Value* sizes) { return sizes != nullptr && !sizes->list().empty(); }

  static bool continues(const Open& open, const FlightEntry& entry) {
    return open.any && open.between_peers == entry.between_peers &&
           (entry.between_peers ? open.peer_sequence == entry.peer_sequence
                                : open.collective == entry.collective);
  }

  // Sends and receives that are called as one have one number, and one of the collective before.
  static bool is_closed_by(const Open& open, const FlightEntry& entry) {
    if (!open.any || !is_closing(entry)) {
      return false;
    }
    if (!open.between_peers) {
      return !entry.between_peers && open.collective == entry.collective;
    }
    return open.peer_sequence == entry.peer_sequence &&
           (entry.between_peers || open.collective == entry.collective ||
            entry.peer_sequence == 0);  // before 2.0 there is no such number
  }

  static TimeNs limit_of(const FlightEntry& entry) {
    TimeNs limit = 0;
    return entry.timeout_ms <= 0 ||
                   __builtin_mul_overflow(entry.timeout_ms, TimeNs{1'000'000}, &limit)
               ? 0
               : limit;
  }

  static TimeNs deadline_of(const FlightEntry& entry) {
    const TimeNs limit = limit_of(entry);
    TimeNs deadline = 0;
    const bool known =
        entry.created > 0 && limit > 0 && !__builtin_add_overflow(limit, entry.created, &deadline);
    return known ? deadline : 0;
  }

  static TimeNs earlier(TimeNs a, TimeNs b) {
    return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
  }

  void settle(const Open& open) {
    pending_ += open.pending;
    deadline_ = earlier(deadline_, open.deadline);
  }

  std::map<size_t, Open> open_;  // by the index of its group
  size_t first_part_ = 0;
  uint64_t pending_ = 0;
  TimeNs deadline_ = 0;
  TimeNs limit_ = 0;
};

}  // namespace traintrace
