#include "analyzer/model/divergence/misplaced_calls.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "analyzer/model/divergence/found_by_rank.h"
#include "analyzer/model/divergence/usual_order.h"
#include "analyzer/model/peers.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/sequences.h"

namespace traintrace {
namespace {

struct Standing {
  size_t communicator = 0;
  std::span<const Sequence> sequences;  // by member, and so by rank
  uint64_t most = 0;                    // as far as most of them have come
  size_t there = 0;                     // how many of them
};

Standing standing_of(size_t index, std::span<const Sequence> sequences) {
  Standing standing;
  standing.communicator = index;
  standing.sequences = sequences;
  std::map<uint64_t, size_t> members_at;
  for (const Sequence& one : standing.sequences) {
    ++members_at[one.reached];
  }
  for (const Sequence& one : standing.sequences) {
    if (members_at[one.reached] > standing.there) {
      standing.there = members_at[one.reached];
      standing.most = one.reached;
    }
  }
  return standing;
}

// Of two ranks either may be right.
std::vector<Standing> standings_of(size_t index, std::span<const Sequence> sequences) {
  std::vector<Standing> standings = {standing_of(index, sequences)};
  if (sequences.size() == 2 && sequences[0].reached != sequences[1].reached) {
    Standing other = standings.front();
    other.most = sequences[1].reached;
    standings.push_back(other);
  }
  return standings;
}

const Sequence* sequence_in(const Standing& standing, Rank rank) {
  const auto found = std::lower_bound(
      standing.sequences.begin(), standing.sequences.end(), rank,
      [](const Sequence& sequence, Rank wanted) { return sequence.member->rank < wanted; });
  return found == standing.sequences.end() || found->member->rank != rank ? nullptr : &*found;
}

SideCall side(const Sequence& sequence, const SequenceItem& item) {
  SideCall call;
  call.rank = sequence.member->rank;
  call.process = sequence.member->process;
  call.item = item;
  return call;
}

Ranks everybody_but(const Run& run, size_t communicator, Rank rank) {
  Ranks others;
  for (const Member& member : run.communicators[communicator].members) {
    if (member.rank != rank) {
      others.push_back(member.rank);
    }
  }
  return others;
}

// What the others have in the place of the call that `rank` left out.
struct LeftOut {
  SideCall call;
  uint64_t last = 0;  // it may be any from that of `call` up to this
};

// Of two members, what the one made in excess the other may have left out.  None: there are more.
std::optional<Rank> other_of_two(const Standing& standing, Rank rank) {
  const auto& members = standing.sequences;
  return members.size() != 2
             ? std::nullopt
             : std::optional(members[members[0].member->rank == rank ? 1 : 0].member->rank);
}

std::optional<LeftOut> left_out(const Standing& standing, Rank rank, const FoundByRank& found) {
  for (const size_t number : found.of(standing.communicator, rank)) {
    const Divergence& one = found[number];
    if (one.kind == DivergenceKind::kSkipped && one.length == 1) {
      return LeftOut{one.expected, one.sequence_last};
    }
  }
  if (const auto other = other_of_two(standing, rank)) {
    for (const size_t number : found.of(standing.communicator, *other)) {
      const Divergence& one = found[number];
      if (one.kind == DivergenceKind::kExtra && one.length == 1 && one.tie) {
        return LeftOut{one.own, one.sequence_last};
      }
    }
  }
  const Sequence* own = sequence_in(standing, rank);
  if (own == nullptr || own->reached >= standing.most) {
    return std::nullopt;
  }
  for (const Sequence& other : standing.sequences) {
    const SequenceItem* item = other.at(own->reached + 1);
    if (other.reached == standing.most && item != nullptr) {
      return LeftOut{side(other, *item), own->reached + 1};
    }
  }
  return std::nullopt;
}

// A call that its rank may have made in excess, or still in the place of another.
bool is_in_excess(const Divergence& one) {
  return one.exact &&
         (one.kind == DivergenceKind::kExtra
              ? one.length == 1
              : one.kind == DivergenceKind::kFunction || one.kind == DivergenceKind::kCount ||
                    one.kind == DivergenceKind::kType);
}

// The same by their numbers alone.
const SequenceItem* counted_in_excess(const Standing& standing, const Sequence& own) {
  return own.reached == standing.most + 1 ? own.at(own.reached) : nullptr;
}

// The call that only `rank` made.
std::optional<SideCall> in_excess(const Standing& standing, Rank rank, const FoundByRank& found) {
  for (const size_t number : found.of(standing.communicator, rank)) {
    if (is_in_excess(found[number])) {
      return found[number].own;
    }
  }
  const Sequence* own = sequence_in(standing, rank);
  const SequenceItem* item = own == nullptr ? nullptr : counted_in_excess(standing, *own);
  return item == nullptr ? std::nullopt : std::optional(side(*own, *item));
}

bool same_members(const Run& run, size_t a, size_t b) {
  const auto& left = run.communicators[a].members;
  const auto& right = run.communicators[b].members;
  return left.size() > 1 &&
         std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const Member& one, const Member& other) { return one.rank == other.rank; });
}

Divergence misplaced(const Run& run, DivergenceKind kind, size_t communicator, const SideCall& own,
                     const SideCall& expected) {
  Divergence one;
  one.kind = kind;
  one.communicator = communicator;
  one.sequence = one.sequence_last = one.met = expected.item.operation.sequence;
  one.deviants = {own.rank};
  one.parts = {one.deviants};
  one.others = everybody_but(run, communicator, own.rank);
  one.tie = one.others.size() < 2;
  one.exact = true;
  one.own = own;
  one.expected = expected;
  return one;
}

// Has anybody called that on it before?
bool is_habit(const Standing& standing, const SequenceItem& item) {
  return std::any_of(
      standing.sequences.begin(), standing.sequences.end(), [&](const Sequence& sequence) {
        return std::count_if(sequence.items.begin(), sequence.items.end(),
                             [&](const SequenceItem& other) {
                               return other.key == item.key && other.site == item.site;
                             }) > 1;
      });
}

// All others made that call there, from one line, as the rank did elsewhere; and from that line
// nobody had called on what it used before, as who goes through several communicators does.
bool is_called_by_all_others(const Standing& meant, const Standing& used, const LeftOut& missing,
                             const SideCall& instead) {
  constexpr size_t kLeast = 3;  // of two members either may be right
  return meant.sequences.size() >= kLeast && !is_habit(used, instead.item) &&
         std::all_of(meant.sequences.begin(), meant.sequences.end(), [&](const Sequence& sequence) {
           const SequenceItem* const item = sequence.at(missing.call.item.operation.sequence);
           return sequence.member->rank == instead.rank ||
                  (item != nullptr && item->key == instead.item.key &&
                   item->site == instead.item.site);
         });
}

// What is known of the rank there, and so of the other one of two.
size_t erase_all(const Standing& standing, Rank rank, FoundByRank& found) {
  const auto other = other_of_two(standing, rank);
  return found.erase(standing.communicator, rank) +
         (other ? found.erase(standing.communicator, *other) : 0);
}

// On `meant` the rank left out what it issued on `used`.
void look_for_other_communicator(const Run& run, const Standing& meant, const Standing& used,
                                 FoundByRank& found) {
  for (const Sequence& sequence : meant.sequences) {
    const Rank rank = sequence.member->rank;
    const auto missing = left_out(meant, rank, found);
    const auto instead = missing ? in_excess(used, rank, found) : std::nullopt;
    // Of two calls that look alike only the line tells that they are one.
    if (!instead || instead->item.key != missing->call.item.key || instead->item.site == 0 ||
        instead->item.site != missing->call.item.site || meant.there + 1 < meant.sequences.size()) {
      continue;
    }
    const bool pair = meant.sequences.size() == 2;
    if ((pair && is_habit(used, instead->item) && !is_habit(meant, instead->item)) ||
        (!same_members(run, meant.communicator, used.communicator) &&
         !is_called_by_all_others(meant, used, *missing, *instead))) {
      continue;
    }
    Divergence one = misplaced(run, DivergenceKind::kOtherCommunicator, meant.communicator,
                               *instead, missing->call);
    one.used = used.communicator;
    one.counted = found.erase(meant.communicator, rank) + found.erase(used.communicator, rank) == 0;
    found.add(std::move(one));
    return;
  }
}

// The number that the next collective behind that operation has.
uint64_t number_behind(const Sequence& sequence, const OperationText& operation) {
  for (const SequenceItem& item : sequence.items) {
    if (item.operation.index > operation.index) {
      return item.operation.sequence;
    }
  }
  return sequence.reached + 1;
}

// A send or receive that nobody answers, in the place of one of those collectives.
const OperationText* unanswered(const Run& run, const Communicator& communicator,
                                const Sequence& sequence, uint64_t first, uint64_t last) {
  const ProcessTrace& trace = run.processes[sequence.member->process];
  for (const OperationText& operation : text_of(run, *sequence.member).recent) {
    if (!operation.collective && !finished(trace, operation) &&
        is_unanswered(run, communicator, *sequence.member, operation)) {
      const uint64_t number = number_behind(sequence, operation);
      if (first <= number && number <= last) {
        return &operation;
      }
    }
  }
  return nullptr;
}

// It always called that from there, and at this place: its peer should have answered.
bool belongs_there(const Run& run, size_t communicator, const Sequence& sequence,
                   const OperationText& message) {
  const auto& recent = text_of(run, *sequence.member).recent;
  const bool before = std::any_of(recent.begin(), recent.end(), [&](const OperationText& other) {
    return !other.collective && other.call == message.call && other.stack == message.stack &&
           other.index < message.index && (message.group == 0 || other.group != message.group);
  });
  return before && departs_from_habit(run, sequence.member->rank, communicator, message.enter) !=
                       std::optional(true);
}

void look_for_peers(const Run& run, const Standing& standing, FoundByRank& found) {
  const Communicator& communicator = run.communicators[standing.communicator];
  for (const Sequence& sequence : standing.sequences) {
    const Rank rank = sequence.member->rank;
    const std::span<const size_t> own = found.of(standing.communicator, rank);
    const bool explained = std::any_of(own.begin(), own.end(), [&](size_t number) {
      return found[number].kind == DivergenceKind::kWrongPeer;
    });
    const auto missing = explained ? std::nullopt : left_out(standing, rank, found);
    if (!missing || standing.there + 1 < standing.sequences.size()) {
      continue;
    }
    const OperationText* instead = unanswered(run, communicator, sequence,
                                              missing->call.item.operation.sequence, missing->last);
    if (instead == nullptr || belongs_there(run, standing.communicator, sequence, *instead)) {
      continue;
    }
    SequenceItem item;
    item.operation = *instead;
    item.function = instead->receive ? "ncclRecv" : "ncclSend";
    Divergence one = misplaced(run, DivergenceKind::kPeer, standing.communicator,
                               side(sequence, item), missing->call);
    one.sequence = one.sequence_last = one.met = number_behind(sequence, *instead);
    one.counted = erase_all(standing, rank, found) == 0;
    found.add(std::move(one));
  }
}

bool is_even(const Run& run, const Communicator& communicator) {
  const uint64_t first = text_of(run, communicator.members.front()).collectives;
  return std::all_of(
      communicator.members.begin(), communicator.members.end(),
      [&](const Member& member) { return text_of(run, member).collectives == first; });
}

// Which of the standings have a call in excess that may be the one that is missing elsewhere: by
// its rank, what it is and the line.
class Excesses {
 public:
  Excesses(std::span<const Standing> standings, const FoundByRank& found) {
    for (size_t number = 0; number < standings.size(); ++number) {
      const Standing& standing = standings[number];
      for (const Sequence& own : standing.sequences) {
        const Rank rank = own.member->rank;
        for (const size_t one : found.of(standing.communicator, rank)) {
          if (is_in_excess(found[one])) {
            add(rank, found[one].own.item, number);
          }
        }
        if (const SequenceItem* item = counted_in_excess(standing, own)) {
          add(rank, *item, number);
        }
      }
    }
  }

  // The numbers of those that may have what is missing on `meant`, from `first` on.
  std::set<size_t> of(const Standing& meant, size_t first, const FoundByRank& found) const {
    // A job that makes the same call on so many communicators of the same ranks does not say by
    // that on which of them it belonged.
    constexpr size_t kMost = 100;
    std::set<size_t> numbers;
    for (const Sequence& own : meant.sequences) {
      const auto missing = left_out(meant, own.member->rank, found);
      const auto alike =
          missing ? by_call_.find(key(own.member->rank, missing->call.item)) : by_call_.end();
      if (alike != by_call_.end() && alike->second.size() <= kMost) {
        numbers.insert(std::lower_bound(alike->second.begin(), alike->second.end(), first),
                       alike->second.end());
      }
    }
    return numbers;
  }

 private:
  using Key = std::tuple<Rank, uint64_t, uint64_t>;
  static Key key(Rank rank, const SequenceItem& item) { return {rank, item.key, item.site}; }
  void add(Rank rank, const SequenceItem& item, size_t number) {
    std::vector<size_t>& numbers = by_call_[key(rank, item)];
    if (item.site != 0 && (numbers.empty() || numbers.back() != number)) {
      numbers.push_back(number);
    }
  }

  std::map<Key, std::vector<size_t>> by_call_;
};

void look_for_other_communicators(const Run& run, std::span<const Standing> uneven,
                                  const Standing& meant, const Excesses& excesses,
                                  FoundByRank& found) {
  std::set<size_t> numbers = excesses.of(meant, 0, found);
  while (!numbers.empty()) {
    const size_t number = *numbers.begin();
    numbers.erase(numbers.begin());
    const Standing& used = uneven[number];
    const size_t changes = found.changes();
    if (meant.communicator != used.communicator &&
        !found.is_swapped(meant.communicator, used.communicator)) {
      look_for_other_communicator(run, meant, used, found);
    }
    if (found.changes() != changes) {
      numbers = excesses.of(meant, number + 1, found);
    }
  }
}

}  // namespace

void find_misplaced_calls(const Run& run, MemberSequences& sequences,
                          std::vector<Divergence>& divergences) {
  std::set<size_t> differ;
  for (const Divergence& one : divergences) {
    differ.insert(one.communicator);
  }
  std::vector<Standing> uneven;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const Communicator& communicator = run.communicators[i];
    const bool all_there = static_cast<int>(communicator.members.size()) == communicator.size;
    if (all_there && communicator.size > 1 && (differ.contains(i) || !is_even(run, communicator))) {
      const std::vector<Standing> standings = standings_of(i, sequences.of(i));
      uneven.insert(uneven.end(), standings.begin(), standings.end());
    }
  }
  FoundByRank found(divergences);
  const Excesses excesses(uneven, found);
  for (const Standing& meant : uneven) {
    look_for_other_communicators(run, uneven, meant, excesses, found);
    look_for_peers(run, meant, found);
  }
  found.put_back(divergences);
}

}  // namespace traintrace
