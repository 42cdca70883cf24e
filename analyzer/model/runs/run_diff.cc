#include "analyzer/model/runs/run_diff.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/model/communicators.h"
#include "analyzer/model/event_operations.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/model/sequences.h"

namespace traintrace {
namespace {

Ranks ranks_of(const Run& run) {
  Ranks ranks;
  for (const RankState& state : run.ranks) {
    ranks.push_back(state.rank);
  }
  return ranks;
}

Ranks without(const Ranks& ranks, const Ranks& others) {
  Ranks left;
  std::set_difference(ranks.begin(), ranks.end(), others.begin(), others.end(),
                      std::back_inserter(left));
  return left;
}

// Of one of the runs, by those of its members that both have traces of.
std::map<Ranks, std::vector<const Communicator*>> by_ranks(const Run& run, const Ranks& both) {
  std::map<Ranks, std::vector<const Communicator*>> found;
  for (const Communicator& communicator : run.communicators) {
    Ranks ranks;
    for (const Member& member : communicator.members) {
      if (contains(both, member.rank)) {
        ranks.push_back(member.rank);
      }
    }
    found[std::move(ranks)].push_back(&communicator);
  }
  return found;
}

// Of a split of which traces are missing the size is not known.
bool may_be_same(const Communicator& a, const Communicator& b) {
  return a.size < 0 || b.size < 0 || a.size == b.size;
}

using Pairs = std::map<const Communicator*, const Communicator*>;

// Ids and often names are new in every run: of those with the same ranks the first is the first.
Pairs pairs_of(const Run& a, const Run& b, const Ranks& both) {
  Pairs pairs;
  auto of_b = by_ranks(b, both);
  for (const auto& [ranks, of_a] : by_ranks(a, both)) {
    std::vector<const Communicator*>& others = of_b[ranks];
    for (const Communicator* const communicator : ranks.empty() ? decltype(of_a)() : of_a) {
      const auto other = std::find_if(others.begin(), others.end(), [&](const auto* one) {
        return may_be_same(*communicator, *one);
      });
      if (other != others.end()) {
        pairs[communicator] = *other;
        others.erase(other);
      }
    }
  }
  return pairs;
}

// One rank's collectives on one communicator in one of the runs.
struct Side {
  const Run* run = nullptr;
  const Member* member = nullptr;
  Sequence sequence;
  EventOperations events;  // by sequence; filled where they are asked for
  const ProcessTrace* events_of = nullptr;

  const ProcessTrace& trace() const { return run->processes[member->process]; }
  std::optional<SequenceItem> at(uint64_t number) const {
    if (const SequenceItem* item = sequence.at(number)) {
      return *item;
    }
    const auto found = events.find(number);
    return found == events.end() ? std::nullopt : std::optional(found->second);
  }
};

std::set<uint64_t> numbers_of(const Side& side, bool by_hash) {
  std::set<uint64_t> numbers;
  for (size_t i = 0; i <= side.sequence.items.size(); ++i) {
    numbers.insert(side.sequence.first - 1 + i);
  }
  if (by_hash) {
    for (const format::Checkpoint& checkpoint : side.sequence.checkpoints) {
      numbers.insert(checkpoint.sequence);
    }
  }
  for (const auto& [number, item] : side.events) {
    numbers.insert(number);
  }
  numbers.erase(0);
  return numbers;
}

// Up to where they agree, and the next place at which they are known not to.
struct Range {
  uint64_t agreed = 0;
  uint64_t met = 0;  // 0: none
  bool any = false;  // both are known at one place
};

Range range_of(const Side& a, const Side& b, bool by_hash) {
  Range range;
  const std::set<uint64_t> other = numbers_of(b, by_hash);
  for (const uint64_t number : numbers_of(a, by_hash)) {
    if (number > a.sequence.reached || number > b.sequence.reached || !other.contains(number)) {
      continue;
    }
    const auto item_a = a.at(number);
    const auto item_b = b.at(number);
    const auto hash_a = by_hash ? a.sequence.hash_at(number) : std::nullopt;
    const auto hash_b = by_hash ? b.sequence.hash_at(number) : std::nullopt;
    const bool hashes = hash_a && hash_b;
    if (!hashes && !(item_a && item_b)) {
      continue;
    }
    range.any = true;
    const bool equal = hashes ? hash_a == hash_b : item_a->key == item_b->key;
    if (!equal) {
      range.met = number;
      return range;
    }
    range.agreed = number;
  }
  return range;
}

// The first of `range` whose items differ, if all before it are known.
std::optional<uint64_t> exact_in(const Side& a, const Side& b, const Range& range) {
  for (uint64_t number = range.agreed + 1; number <= range.met; ++number) {
    const auto item_a = a.at(number);
    const auto item_b = b.at(number);
    if (!item_a || !item_b) {
      return std::nullopt;
    }
    if (item_a->key != item_b->key) {
      return number;
    }
  }
  return std::nullopt;
}

void add_events(Side& side, const ReadEvents& read_events) {
  side.events_of = read_events(side.trace());
  if (side.events_of != nullptr) {
    side.events = event_operations(*side.events_of, side.member->element);
  }
}

DiffSide side_at(const Side& side, uint64_t number) {
  DiffSide shown;
  shown.collectives = side.sequence.reached;
  shown.item = number == 0 ? std::nullopt : side.at(number);
  if (shown.item) {
    const bool of_tables = side.sequence.at(number) != nullptr;
    const ProcessTrace& trace = of_tables ? side.trace() : *side.events_of;
    const auto place = user_place(trace, side.member->rank, shown.item->operation.stack);
    shown.place = place ? place_text(*place) : "";
  }
  return shown;
}

Side side_of(const Run& run, const Member& member) {
  Side side;
  side.run = &run;
  side.member = &member;
  side.sequence = sequence_of(run, member);
  return side;
}

SequenceDiff compare(Side a, Side b, const ReadEvents& read_events) {
  SequenceDiff diff;
  const bool empty = a.sequence.reached == 0 || b.sequence.reached == 0;
  const bool by_hash = !a.sequence.hashes.empty() && !b.sequence.hashes.empty();
  Range range = range_of(a, b, by_hash);
  auto exact = range.met == 0 ? std::nullopt : exact_in(a, b, range);
  if (!empty && (!range.any || (range.met != 0 && !exact))) {
    add_events(a, read_events);
    add_events(b, read_events);
    range = range_of(a, b, by_hash);
    exact = range.met == 0 ? std::nullopt : exact_in(a, b, range);
  }
  const uint64_t shorter = std::min(a.sequence.reached, b.sequence.reached);
  const bool uneven = a.sequence.reached != b.sequence.reached;
  diff.kind = range.met != 0         ? DiffKind::kDiffers
              : !range.any && !empty ? DiffKind::kUnknown
              : uneven               ? DiffKind::kEnds
                                     : DiffKind::kSame;
  if (diff.kind == DiffKind::kDiffers) {
    diff.sequence = exact.value_or(range.agreed + 1);
    diff.sequence_last = exact.value_or(range.met);
  } else if (diff.kind == DiffKind::kEnds) {
    diff.sequence = diff.sequence_last = shorter + 1;
  }
  diff.compared_from = by_hash ? 1 : std::max(a.sequence.first, b.sequence.first);
  const uint64_t shown = diff.sequence == diff.sequence_last ? diff.sequence : 0;
  diff.a = side_at(a, shown);
  diff.b = side_at(b, shown);
  return diff;
}

auto alike(const SequenceDiff& diff) {
  const auto side = [](const DiffSide& one) {
    return std::tuple(one.collectives, one.item ? one.item->key : 0, one.place);
  };
  return std::tuple(diff.kind, diff.communicator, diff.sequence, diff.sequence_last, side(diff.a),
                    side(diff.b));
}

// One for all ranks whose differences are alike.
class SequenceDiffs {
 public:
  void add(SequenceDiff diff) {
    const auto [place, is_new] = places_.try_emplace(alike(diff), all_.size());
    if (is_new) {
      all_.push_back(std::move(diff));
    } else {
      insert(all_[place->second].ranks, diff.ranks.front());
    }
  }
  std::vector<SequenceDiff> take() { return std::move(all_); }

 private:
  std::vector<SequenceDiff> all_;
  std::map<decltype(alike({})), size_t> places_;
};

int order_of(DiffKind kind) {
  constexpr int kOrder[] = {3, 0, 1, 2};
  return kOrder[static_cast<size_t>(kind)];
}

}  // namespace

RunDiff diff_runs(const Run& a, const Run& b, const ReadEvents& read_events) {
  RunDiff diff;
  diff.ranks_only_in_a = without(ranks_of(a), ranks_of(b));
  diff.ranks_only_in_b = without(ranks_of(b), ranks_of(a));
  const Ranks both = without(ranks_of(a), diff.ranks_only_in_a);
  const auto any_in_both = [&](const Communicator& communicator) {
    return std::any_of(communicator.members.begin(), communicator.members.end(),
                       [&](const Member& member) { return contains(both, member.rank); });
  };
  const Pairs pairs = pairs_of(a, b, both);
  std::set<const Communicator*> in_both;
  for (const auto& [of_a, of_b] : pairs) {
    in_both.insert(of_b);
  }
  for (const Communicator& communicator : b.communicators) {
    if (!in_both.contains(&communicator) && any_in_both(communicator)) {
      diff.only_in_b.push_back(label_of(b, communicator));
    }
  }
  SequenceDiffs sequences;
  for (const Communicator& communicator : a.communicators) {
    const auto pair = pairs.find(&communicator);
    if (pair == pairs.end()) {
      if (any_in_both(communicator)) {
        diff.only_in_a.push_back(label_of(a, communicator));
      }
      continue;
    }
    for (const Member& member : communicator.members) {
      const Member* const other = member_of(*pair->second, member.rank);
      if (other == nullptr) {
        continue;
      }
      SequenceDiff one = compare(side_of(a, member), side_of(b, *other), read_events);
      one.communicator = label_of(a, communicator);
      one.ranks = {member.rank};
      sequences.add(std::move(one));
    }
  }
  diff.sequences = sequences.take();
  // Of a communicator whose members end at different places the first to end is what the others
  // wait for: it comes before them, and before communicators in which all end together.
  std::map<std::string, std::set<uint64_t>> ends;
  for (const SequenceDiff& one : diff.sequences) {
    if (one.kind == DiffKind::kEnds) {
      ends[one.communicator].insert(one.sequence);
    }
  }
  const auto key = [&](const SequenceDiff& one) {
    const bool uneven = one.kind == DiffKind::kEnds && ends[one.communicator].size() > 1;
    return std::tuple(order_of(one.kind), !uneven, uneven ? one.communicator : "",
                      uneven ? one.sequence : 0);
  };
  std::stable_sort(
      diff.sequences.begin(), diff.sequences.end(),
      [&](const SequenceDiff& one, const SequenceDiff& two) { return key(one) < key(two); });
  return diff;
}

}  // namespace traintrace
