#include "analyzer/match/siblings.h"

#include <algorithm>

#include "analyzer/judge/frontier/standing.h"
#include "analyzer/match/roles.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/sequences.h"

namespace traintrace {
namespace {

// How a collective was called.
struct Manner {
  std::string function;
  uint64_t site = 0;
  int type = -1;
  uint64_t count = 0;
};

class Siblings {
 public:
  Siblings(const Run& run, const Program& one, const Call& first, const Program& other,
           const Call& second)
      : run_(run),
        own_(*member_of(run.communicators[first.communicator], one.rank)),
        first_(manner_of(own_, *first.operation)),
        second_(manner_of(*member_of(run.communicators[second.communicator], other.rank),
                          *second.operation)),
        sequence_(first.operation->sequence) {}

  SiblingsSay ask(const Communicator& group, Rank other) {
    Ranks as_first;
    Ranks as_second;
    for (const Communicator& communicator : run_.communicators) {
      for (const Member& member : communicator.members) {
        if (member.rank == own_.rank || member.rank == other ||
            !is_sibling(group, communicator, member) || !has_called_alike(member)) {
          continue;
        }
        const OperationText* const call = collective_at(text_of(run_, member), sequence_);
        if (call != nullptr && is_as(manner_of(member, *call), first_)) {
          insert(as_first, member.rank);
        } else if (call != nullptr && is_as(manner_of(member, *call), second_)) {
          insert(as_second, member.rank);
        }
      }
    }
    // Both members of one other group at least, and none that did it in the other way.
    constexpr size_t kLeast = 2;
    SiblingsSay say;
    say.divided = !as_first.empty() && !as_second.empty();
    if (!say.divided && as_first.size() >= kLeast) {
      say.wrong = 1;
      say.ranks = as_first;
    } else if (!say.divided && as_second.size() >= kLeast) {
      say.wrong = -1;
      say.ranks = as_second;
    }
    return say;
  }

 private:
  Manner manner_of(const Member& member, const OperationText& operation) const {
    const ProcessTrace& trace = run_.processes[member.process];
    return {call_name(trace, operation.call), site_of(trace, operation.stack), operation.data_type,
            operation.count};
  }

  // Alike in all in which the two differ.  Else other stages of a pipeline may do it on more data.
  bool is_as(const Manner& manner, const Manner& side) const {
    return manner.function == side.function && manner.site == side.site &&
           (first_.type == second_.type || manner.type == side.type) &&
           (first_.count == second_.count || manner.count == side.count);
  }

  bool is_sibling(const Communicator& group, const Communicator& communicator,
                  const Member& member) const {
    return communicator.size == group.size && communicator.name == group.name &&
           ordinal_of(run_.processes[member.process], member.element) ==
               ordinal_of(run_.processes[own_.process], own_.element);
  }

  // All that is kept of what came before, on both.
  bool has_called_alike(const Member& member) const {
    const CommunicatorText& own = text_of(run_, own_);
    const CommunicatorText& theirs = text_of(run_, member);
    bool any = false;
    for (const OperationText& operation : own.recent) {
      if (!operation.collective || operation.sequence >= sequence_ || operation.sequence == 0) {
        continue;
      }
      if (const OperationText* const call = collective_at(theirs, operation.sequence)) {
        if (!is_as(manner_of(member, *call), manner_of(own_, operation))) {
          return false;
        }
        any = true;
      }
    }
    return any;
  }

  const Run& run_;
  const Member& own_;
  const Manner first_, second_;
  const uint64_t sequence_;
};

}  // namespace

SiblingsSay ask_siblings(const Run& run, const Program& one, const Call& first,
                         const Program& other, const Call& second) {
  const Communicator& group = run.communicators[first.communicator];
  const auto counterpart = counterpart_of(run, first.communicator, one.rank, other.rank);
  const bool comparable = first.operation->collective && second.operation->collective &&
                          first.operation->sequence != 0 &&
                          first.operation->sequence == second.operation->sequence &&
                          counterpart == size_t{second.communicator};
  return comparable ? Siblings(run, one, first, other, second).ask(group, other.rank)
                    : SiblingsSay{};
}

}  // namespace traintrace
