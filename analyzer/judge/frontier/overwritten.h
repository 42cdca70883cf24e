// What a ring has overwritten though it is not complete: dumps of the Flight Recorder count the
// collectives of a group that are complete, and say in which of them the GPU is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

struct Membership {
  size_t communicator = 0;  // in Run::communicators
  const Member* member = nullptr;
};

// The first collective that is not complete, of those that are not kept; 0: all of these are
// complete.  None: that is not counted.
std::optional<uint64_t> first_overwritten(const CommunicatorText& text);

// The rank has issued that collective, it is not complete, and it is not kept.
bool is_overwritten(const CommunicatorText& text, uint64_t sequence);

// Where a rank stands if the oldest that is kept of it is not complete.
enum class OverwrittenKind : uint8_t {
  kNothing,    // all that is not kept is complete
  kStandsAt,   // in a collective that may be overwritten
  kSomewhere,  // that is not known
};

struct Overwritten {
  OverwrittenKind kind = OverwrittenKind::kSomewhere;
  Membership at;
  uint64_t sequence = 0;
  GpuState gpu = GpuState::kPending;
};

// Looks at each process and each collective once, of however many ranks it is asked.
class OverwrittenFinder {
 public:
  explicit OverwrittenFinder(const Run& run);

  // `own`: all communicators of a rank.
  Overwritten find(const std::vector<Membership>& own);
  // In the collective of that number all members need all others: as a member keeps it or, where
  // none does, as all that they keep of that communicator.
  bool is_all_to_all(size_t communicator, uint64_t sequence);

 private:
  enum class Others : uint8_t { kNothing, kSomeAreInIt, kAllAreInIt, kAllAreThrough };
  struct Counts {  // of members
    size_t through = 0;
    size_t inside = 0;
    bool all_to_all = false;
  };

  bool is_begun(const Member& member) const;
  const Counts& counts_of(size_t communicator, uint64_t sequence);
  Others others_in(const Membership& own, uint64_t sequence);

  const Run& run_;
  std::vector<std::optional<std::set<size_t>>> begun_;    // by process: places of communicators
  std::map<std::pair<size_t, uint64_t>, Counts> counts_;  // by communicator and number
  std::map<size_t, bool> all_to_all_only_;                // by communicator
};

}  // namespace traintrace
