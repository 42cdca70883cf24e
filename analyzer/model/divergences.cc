#include "analyzer/model/divergences.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "analyzer/model/alignment.h"
#include "analyzer/model/groups.h"
#include "analyzer/model/messages.h"
#include "analyzer/model/misplaced_calls.h"
#include "analyzer/model/run.h"
#include "analyzer/model/site_shift.h"
#include "analyzer/model/wrong_peers.h"

namespace traintrace {
namespace {

using Group = std::vector<const Sequence*>;

// Where members first differ, and who has what there.
struct Split {
  uint64_t number = 0;
  uint64_t from = 0;          // the difference is not before that
  std::vector<Group> groups;  // the largest first, then by rank
};

struct Comparison {
  bool by_hash = true;
  uint64_t after = 0;  // all up to there has been dealt with
};

std::optional<uint64_t> token_at(const Sequence& sequence, uint64_t number, bool by_hash) {
  if (number > sequence.reached) {
    return std::nullopt;
  }
  if (by_hash) {
    return sequence.hash_at(number);
  }
  const SequenceItem* item = sequence.at(number);
  return item == nullptr ? std::nullopt : std::optional(item->key);
}

// Ascending.
std::vector<uint64_t> numbers_known(const Group& members, const Comparison& how) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // first and last
  for (const Sequence* sequence : members) {
    ranges.emplace_back(sequence->first - 1, sequence->first - 1 + sequence->items.size());
    for (const format::Checkpoint& checkpoint : sequence->checkpoints) {
      ranges.emplace_back(checkpoint.sequence, checkpoint.sequence);
    }
  }
  std::sort(ranges.begin(), ranges.end());
  std::vector<uint64_t> numbers;
  uint64_t next = how.after + 1;
  for (const auto& [first, last] : ranges) {
    for (next = std::max(next, first); next <= last; ++next) {
      numbers.push_back(next);
    }
  }
  return numbers;
}

// Cheaper than sorting them into groups, and mostly enough.
bool all_agree(const Group& members, uint64_t number, bool by_hash) {
  std::optional<uint64_t> first;
  for (const Sequence* sequence : members) {
    const auto token = token_at(*sequence, number, by_hash);
    if (token && first && *token != *first) {
      return false;
    }
    first = first ? first : token;
  }
  return true;
}

// The number behind the last one before `number` up to which both are known to agree.
uint64_t agreed_until(const Sequence& a, const Sequence& b, uint64_t number,
                      const Comparison& how) {
  const std::vector<uint64_t> numbers = numbers_known({&a, &b}, how);
  const auto from = std::lower_bound(numbers.begin(), numbers.end(), number);
  for (auto at = std::make_reverse_iterator(from); at != numbers.rend(); ++at) {
    const auto in_a = token_at(a, *at, how.by_hash);
    const auto in_b = token_at(b, *at, how.by_hash);
    if (in_a && in_a == in_b) {
      return *at + 1;
    }
  }
  return how.after + 1;
}

const Sequence* longest(const Group& group) {
  return *std::max_element(group.begin(), group.end(), [](const Sequence* a, const Sequence* b) {
    return std::tuple(a->items.size(), b->member->rank) <
           std::tuple(b->items.size(), a->member->rank);
  });
}

std::optional<Split> first_split(const Group& members, const Comparison& how) {
  for (const uint64_t number : numbers_known(members, how)) {
    if (all_agree(members, number, how.by_hash)) {
      continue;
    }
    std::map<uint64_t, Group> by_token;
    for (const Sequence* sequence : members) {
      if (const auto token = token_at(*sequence, number, how.by_hash)) {
        by_token[*token].push_back(sequence);
      }
    }
    if (by_token.size() < 2) {
      continue;
    }
    Split split;
    split.number = number;
    for (auto& [token, group] : by_token) {
      split.groups.push_back(std::move(group));
    }
    std::sort(split.groups.begin(), split.groups.end(), [](const Group& a, const Group& b) {
      return std::tuple(b.size(), a.front()->member->rank) <
             std::tuple(a.size(), b.front()->member->rank);
    });
    split.from = agreed_until(*longest(split.groups[0]), *longest(split.groups[1]), number, how);
    return split;
  }
  return std::nullopt;
}

Ranks ranks_of(const Group& group) {
  Ranks ranks;
  for (const Sequence* sequence : group) {
    insert(ranks, sequence->member->rank);
  }
  return ranks;
}

SideCall call_at(const Sequence& sequence, uint64_t number) {
  SideCall call;
  call.rank = sequence.member->rank;
  call.process = sequence.member->process;
  if (const SequenceItem* item = sequence.at(number)) {
    call.item = *item;
  }
  return call;
}

DivergenceKind kind_of_change(const SequenceItem& own, const SequenceItem& expected) {
  const OperationText& a = own.operation;
  const OperationText& b = expected.operation;
  if (own.function != expected.function) {
    return DivergenceKind::kFunction;
  }
  if ((a.count == 0) != (b.count == 0)) {
    return DivergenceKind::kEmpty;
  }
  if (a.data_type != b.data_type) {
    return own.key == expected.key ? DivergenceKind::kHarmlessType : DivergenceKind::kType;
  }
  return a.count != b.count ? DivergenceKind::kCount
         : a.peer != b.peer ? DivergenceKind::kRoot
                            : DivergenceKind::kReduction;
}

// Did both sides issue all of it inside a group?
bool is_grouped(const Sequence& sequence, const Edit& edit) {
  for (uint64_t number = edit.number; number <= edit.number + edit.length; ++number) {
    const SequenceItem* item = sequence.at(number);
    if (item == nullptr || (item->operation.flags & format::kGrouped) == 0) {
      return false;
    }
  }
  return true;
}

void describe_edit(const Edit& edit, const Sequence& deviant, const Sequence& normal,
                   Divergence& found) {
  found.sequence = edit.number;
  found.sequence_last = edit.number_last;
  found.length = edit.length;
  found.matches = edit.matches;
  found.own = call_at(deviant, edit.own_number);
  found.expected = call_at(normal, edit.number);
  found.exact = edit.unique;
  switch (edit.kind) {
    case EditKind::kSkipped:
      found.kind = DivergenceKind::kSkipped;
      break;
    case EditKind::kExtra:
      found.kind = DivergenceKind::kExtra;
      break;
    case EditKind::kSwapped:
      found.kind = DivergenceKind::kSwapped;
      found.own_second = call_at(deviant, edit.own_number + edit.length);
      found.grouped = is_grouped(deviant, edit) && is_grouped(normal, edit);
      break;
    case EditKind::kChanged:
      found.kind = edit.unique ? kind_of_change(found.own.item, found.expected.item)
                               : DivergenceKind::kUnknown;
      break;
  }
}

Divergence compare(const Sequence& deviant, const Sequence& normal, const Split& split) {
  Divergence found;
  found.sequence = split.from;
  found.sequence_last = found.met = split.number;
  const Alignment alignment = align(deviant, normal, split.from);
  if (alignment.first) {
    describe_edit(*alignment.first, deviant, normal, found);
    found.more = alignment.edits - 1;
  } else if (deviant.at(split.number) != nullptr && normal.at(split.number) != nullptr) {
    // Equal in all that counts, but not in all that is hashed.
    found.sequence = split.number;
    found.kind = DivergenceKind::kHarmlessType;
    found.own = call_at(deviant, split.number);
    found.expected = call_at(normal, split.number);
    found.exact = true;
  }
  return found;
}

// How often it went on like that before: from the call before `number` to the one at `number`.
size_t familiarity(const Sequence& sequence, uint64_t number) {
  const SequenceItem* before = sequence.at(number - 1);
  const SequenceItem* item = sequence.at(number);
  size_t found = 0;
  for (uint64_t at = sequence.first + 1; before != nullptr && item != nullptr && at < number;
       ++at) {
    const SequenceItem& a = *sequence.at(at - 1);
    const SequenceItem& b = *sequence.at(at);
    found +=
        a.key == before->key && a.site == before->site && b.key == item->key && b.site == item->site
            ? 1
            : 0;
  }
  return found;
}

// Of as many against as many, those are called deviant who do what nobody did before.
void order_by_habit(Split& split) {
  std::vector<Group>& groups = split.groups;
  if (groups.size() == 2 && groups[0].size() == groups[1].size() && split.number > 1 &&
      familiarity(*longest(groups[0]), split.number) <
          familiarity(*longest(groups[1]), split.number)) {
    std::swap(groups[0], groups[1]);
  }
}

class Comparer {
 public:
  Comparer(const Run& run, size_t index) : index_(index) {
    const Communicator& communicator = run.communicators[index];
    for (const Member& member : communicator.members) {
      sequences_.push_back(sequence_of(run, member));
      by_hash_ = by_hash_ && (!sequences_.back().hashes.empty() || sequences_.back().reached == 0);
    }
    untraced_ = communicator.size - static_cast<int>(sequences_.size());
  }

  std::vector<Divergence> differences() {
    Comparison how;
    how.by_hash = by_hash_;
    Group group = all();
    std::vector<Divergence> found;
    while (auto split = first_split(group, how)) {
      order_by_habit(*split);
      std::vector<Divergence> here = at_split(*split);
      const bool harmless = std::all_of(here.begin(), here.end(), [](const Divergence& one) {
        return one.kind == DivergenceKind::kHarmlessType;
      });
      const bool tie = here.front().tie;
      std::move(here.begin(), here.end(), std::back_inserter(found));
      if (harmless) {
        how = {false, split->number};
      } else if (tie) {
        break;
      } else {
        leave_out(split->groups, group);
      }
    }
    return found;
  }

  std::vector<Divergence> differences_of_sites() const {
    std::vector<Divergence> found;
    for (const SiteShift& shift : find_site_shifts(sequences_)) {
      Divergence one;
      one.kind = shift.extra ? DivergenceKind::kExtra : DivergenceKind::kSkipped;
      one.communicator = index_;
      one.sequence = shift.number;
      one.sequence_last = shift.number_last;
      one.length = shift.length;
      one.matches = shift.matches;
      one.by_site = true;
      one.deviants = ranks_of({shift.deviant});
      one.parts = {one.deviants};
      one.others = shift.others;
      one.own = call_at(*shift.deviant, shift.number);
      one.expected = call_at(*shift.normal, shift.number);
      found.push_back(one);
    }
    return found;
  }

 private:
  Group all() const {
    Group group;
    for (const Sequence& sequence : sequences_) {
      group.push_back(&sequence);
    }
    return group;
  }

  std::vector<Divergence> at_split(const Split& split) const {
    const Group& most = split.groups[0];
    size_t counted = 0;
    for (const Group& group : split.groups) {
      counted += group.size();
    }
    std::vector<Divergence> found;
    for (size_t i = 1; i < split.groups.size(); ++i) {
      Divergence one = compare(*longest(split.groups[i]), *longest(most), split);
      one.communicator = index_;
      one.deviants = ranks_of(split.groups[i]);
      one.parts = {one.deviants};
      one.others = ranks_of(most);
      // Who left no trace may have done as the fewer did.
      const auto unseen = static_cast<size_t>(std::max(untraced_, 0));
      one.tie = most.size() <= split.groups[1].size() + unseen;
      one.complete = counted == sequences_.size() && untraced_ == 0;
      found.push_back(std::move(one));
    }
    return found;
  }

  static void leave_out(const std::vector<Group>& groups, Group& from) {
    for (size_t i = 1; i < groups.size(); ++i) {
      std::erase_if(from, [&](const Sequence* sequence) {
        return std::find(groups[i].begin(), groups[i].end(), sequence) != groups[i].end();
      });
    }
  }

  size_t index_;
  std::vector<Sequence> sequences_;
  bool by_hash_ = true;
  int untraced_ = 0;
};

// The tables alone say that there is nothing to be found; or that nothing can be.
bool is_settled(const Run& run, const Communicator& communicator) {
  if (communicator.members.size() < 2) {
    return true;
  }
  const CommunicatorText& first = text_of(run, communicator.members.front());
  bool equal = first.hash != 0 || first.collectives == 0;
  for (const Member& member : communicator.members) {
    const CommunicatorText& text = text_of(run, member);
    if (text.origin == format::kUnknownOrigin) {
      return true;
    }
    equal = equal && text.hash == first.hash && text.collectives == first.collectives;
  }
  return equal;
}

// Of one kind, at one place: one finding.
void merge(std::vector<Divergence>& found) {
  std::vector<Divergence> merged;
  for (Divergence& one : found) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const Divergence& other) {
      return other.communicator == one.communicator && other.kind == one.kind &&
             other.sequence == one.sequence;
    });
    if (same == merged.end()) {
      merged.push_back(std::move(one));
      continue;
    }
    for (const Rank rank : one.deviants) {
      insert(same->deviants, rank);
    }
    same->parts.push_back(one.deviants);
    same->sequence_last = std::max(same->sequence_last, one.sequence_last);
    same->exact = same->exact && one.exact;
  }
  found = std::move(merged);
}

}  // namespace

std::vector<Divergence> find_divergences(const Run& run) {
  std::vector<Divergence> found;
  std::vector<Divergence> by_site;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    if (is_settled(run, run.communicators[i])) {
      continue;
    }
    Comparer comparer(run, i);
    std::vector<Divergence> here = comparer.differences();
    if (here.empty()) {
      here = comparer.differences_of_sites();
      std::move(here.begin(), here.end(), std::back_inserter(by_site));
    } else {
      std::move(here.begin(), here.end(), std::back_inserter(found));
    }
  }
  std::move(by_site.begin(), by_site.end(), std::back_inserter(found));
  find_wrong_peers(run, found);
  find_misplaced_calls(run, found);
  merge(found);
  find_other_groups(run, found);
  find_message_faults(run, found);
  return found;
}

Divergence difference_at(const Sequence& deviant, const Sequence& normal, uint64_t number) {
  return compare(deviant, normal, {number, number, {}});
}

}  // namespace traintrace
