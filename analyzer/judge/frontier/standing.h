// Where each rank stands.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/judge/frontier/overwritten.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Work that a rank issued as one: a collective, a message, or several messages.
struct Unit {
  size_t communicator = 0;  // in Run::communicators
  const Member* member = nullptr;
  std::vector<const OperationText*> parts;  // one, but for messages issued together

  const OperationText& first() const { return *parts.front(); }
  bool contains(const OperationText& operation) const {
    return std::find(parts.begin(), parts.end(), &operation) != parts.end();
  }
};

// What its stream has yet to do.  Dumps say so of each operation; of our own traces it is all that
// is not known to be over.
bool is_unfinished(const ProcessTrace& trace, const OperationText& operation);

// Finds a rank's operations without looking through all of them.
class Standings {
 public:
  explicit Standings(const Run& run);
  Standings(const Standings&) = delete;  // it points into itself
  Standings& operator=(const Standings&) = delete;
  Standings(Standings&&) = default;
  Standings& operator=(Standings&&) = default;
  ~Standings() = default;

  // Its oldest work that is not complete; null: all that it issued is.
  const Unit* frontier(Rank rank) const;
  // Not complete; by issue.
  const std::vector<const OperationText*>& unfinished(const Member& member) const;
  const OperationText* collective(const Member& member, uint64_t sequence) const;
  // It has issued messages of which nobody knows whether they are complete.
  bool may_stand_earlier(Rank rank) const { return untracked_.contains(rank); }
  // All that is kept of it is unfinished, and what is not kept may be too: which, nothing tells.
  bool may_stand_earlier_than_kept(Rank rank) const { return cut_.contains(rank); }
  // The oldest that is kept of it is unfinished, and what came before is not kept.
  bool has_wrapped(Rank rank) const { return wrapped_.contains(rank); }
  // It has issued that collective, which is not complete, and not kept.
  bool has_overwritten(const Run& run, const Member& member, uint64_t sequence) const {
    return wrapped_.contains(member.rank) && is_overwritten(text_of(run, member), sequence);
  }
  // A collective that no member can complete before all have entered it; of one that is
  // overwritten, as its other members have it.
  bool needs_all(const Run& run, const Unit& unit) const;

 private:
  struct Side {
    std::vector<const OperationText*> collectives;  // by sequence
    std::vector<const OperationText*> unfinished;
  };
  using Place = std::pair<size_t, size_t>;  // of Member: process, element

  const Side& side(const Member& member) const;
  void add(const Run& run, const Membership& membership);
  void find_overwritten(const Run& run, Rank rank, OverwrittenFinder& finder);
  void stand_at(const Run& run, Rank rank, const Overwritten& overwritten,
                OverwrittenFinder& finder);

  std::map<Place, Side> sides_;
  std::map<Rank, Unit> frontiers_;
  std::map<Rank, std::vector<Membership>> memberships_;
  std::map<Rank, TimeNs> oldest_;  // of all that is kept
  std::deque<OperationText> overwritten_;
  std::set<std::pair<size_t, uint64_t>> overwritten_all_to_alls_;  // by communicator and number
  std::set<Rank> untracked_, wrapped_, cut_;
};

// When the member was through with that collective; none: it is not, as far as is known.
std::optional<TimeNs> through_at(const Run& run, const Standings& standings, const Member& member,
                                 uint64_t sequence);

}  // namespace traintrace
