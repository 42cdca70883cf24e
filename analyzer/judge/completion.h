// Which operations can complete, as far as their streams, their peers and their hosts tell: one
// least fixpoint over all ranks.  A unit, what a rank issued as one, begins once all that lies
// before it on its stream, or that an event orders before it, is complete.  A match, the parts of
// one collective or message, is met once all of them have begun.  A unit is complete once all that
// it needs is met.  What is left is blocked.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

struct MatchPart {
  const Member* member = nullptr;
  const OperationText* operation = nullptr;
  size_t unit = 0;
  size_t match = 0;
  bool needs = true;  // it cannot complete without its peers; else it may have sent its data ahead
};

struct Match {
  size_t communicator = 0;  // in Run::communicators
  bool collective = true;
  uint64_t sequence = 0;
  std::vector<size_t> parts;     // of those not known to be complete, by rank
  std::vector<Awaited> missing;  // that have not issued their part, or died in it
  bool differs = false;          // its calls do not agree
  bool met = false;
  size_t not_begun = 0;
};

// Whether its host is inside a call for as long as a hang takes, or its GPU has said so.
bool waits_for_certain(const Run& run, const Member& member, const OperationText& operation);

class Completion {
 public:
  // `explained`: ranks of which something else explains that they died in an operation.
  Completion(const Run& run, Ranks explained);

  const std::vector<Match>& matches() const { return matches_; }
  const std::vector<MatchPart>& parts() const { return parts_; }
  const MatchPart& part(size_t index) const { return parts_[index]; }
  bool has_begun(const MatchPart& part) const { return units_[part.unit].before == 0; }
  // Of those that are not known to be complete.
  bool can_complete(const MatchPart& part) const { return units_[part.unit].is_complete(); }
  // What keeps it from beginning is on its own stream, and is no operation of NCCL.
  bool is_stopped(const MatchPart& part) const { return units_[part.unit].stopped; }

 private:
  struct Unit {
    size_t process = 0;
    std::vector<size_t> parts;
    std::vector<size_t> next;  // that begin behind it
    size_t before = 0;         // units that have to be complete first
    size_t unmet = 0;          // matches that it needs
    bool stopped = false;      // something that is no unit lies before it and does not end

    bool is_complete() const { return before == 0 && unmet == 0; }
  };
  // Before anything was completed.
  struct Start {
    std::vector<Unit> units;
    std::vector<Match> matches;
  };
  using Stream = std::pair<Rank, uint64_t>;  // of it; streams are devices', and so ranks'
  // communicator, collective, sequence, of messages from, to
  using Key = std::tuple<size_t, bool, uint64_t, int, int>;
  struct Reached {
    uint64_t sequence = 0;
    TimeNs last = 0;  // when it entered that, or later
  };

  // Issued, with something to do, and not known to be complete.
  static bool is_pending(const ProcessTrace& trace, const OperationText& operation);
  void add_communicator(size_t index);
  void add_member(size_t index, const Member& member, uint64_t reached, uint64_t first);
  void add_part(size_t index, const Member& member, const OperationText& operation);
  size_t match_of(size_t index, const Member& member, const OperationText& operation);
  void find_missing(size_t index, const std::vector<Reached>& reached);
  void add_lost(size_t index, const std::vector<Reached>& reached);
  void add_cut_off(size_t index, const std::vector<Reached>& reached);
  bool is_entered_after(const ProcessTrace& trace, TimeNs ended, const Match& match) const;
  const OperationText* part_of(const Member& member, const Match& match) const;
  bool was_stuck_before(const Member& member, const Match& match) const;
  void add_untraced(size_t index);
  void find_differing();
  void set_differing(const Key& key);
  void make_units();
  bool may_follow_evicted(const Member& member) const;
  bool is_evicted(const OperationText& operation) const;
  void order_by_events();
  bool is_held_by_stream(const Unit& unit, const Unit& at_first) const;
  void solve();
  void complete_all();
  void complete_again(const Start& start);
  std::vector<size_t> held_sends() const;
  void begin(size_t at, std::vector<size_t>& complete);
  Reached reached_until(const Member& member, TimeNs time) const;
  bool needs_peers(const Member& member, const OperationText& operation) const;
  bool is_held(const Member& member, const OperationText& operation) const;

  const Run& run_;
  const Ranks explained_;
  std::vector<MatchPart> parts_;
  std::vector<Match> matches_;
  std::vector<Unit> units_;
  std::map<Key, size_t> by_key_;
  std::map<Stream, std::vector<size_t>> streams_;  // parts, later units
  std::deque<OperationText> evicted_;
};

// In a Run, which must outlive them.
using BlockedOperations = std::set<const OperationText*>;

// Those that cannot complete, or do not, as far as streams are known.  Of a run that is judged, but
// none of dumps, which say it themselves.
BlockedOperations blocked_operations(const Run& run);

}  // namespace traintrace
