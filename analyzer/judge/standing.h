// Where each rank stands.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// Work that a rank issued as one: a collective, a message, or several messages.
struct Unit {
  size_t communicator = 0;  // in Run::communicators
  const Member* member = nullptr;
  std::vector<const OperationText*> parts;  // one, but for messages issued together

  const OperationText& first() const { return *parts.front(); }
};

// What its stream has yet to do.  Dumps say so of each operation; of our own traces it is all that
// is not known to be over.
bool is_unfinished(const ProcessTrace& trace, const OperationText& operation);

// Finds a rank's operations without looking through all of them.
class Standings {
 public:
  explicit Standings(const Run& run);

  // Its oldest work that is not complete; null: all that it issued is.
  const Unit* frontier(Rank rank) const;
  // Not complete; by issue.
  const std::vector<const OperationText*>& unfinished(const Member& member) const;
  const OperationText* collective(const Member& member, uint64_t sequence) const;
  // It has issued messages of which nobody knows whether they are complete.
  bool may_stand_earlier(Rank rank) const { return untracked_.contains(rank); }
  // All that is kept of it is unfinished, so that what is not kept may be too.
  bool may_stand_earlier_than_kept(Rank rank) const { return cut_.contains(rank); }

 private:
  struct Side {
    std::vector<const OperationText*> collectives;  // by sequence
    std::vector<const OperationText*> unfinished;
  };
  using Place = std::pair<size_t, size_t>;  // of Member: process, element

  const Side& side(const Member& member) const;

  std::map<Place, Side> sides_;
  std::map<Rank, Unit> frontiers_;
  std::set<Rank> untracked_, cut_;
};

}  // namespace traintrace
