#include "analyzer/model/divergence/divergences.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "analyzer/model/divergence/abandoned_step.h"
#include "analyzer/model/divergence/alignment.h"
#include "analyzer/model/divergence/first_split.h"
#include "analyzer/model/divergence/messages.h"
#include "analyzer/model/divergence/misplaced_calls.h"
#include "analyzer/model/divergence/site_shift.h"
#include "analyzer/model/divergence/usual_order.h"
#include "analyzer/model/divergence/wrong_peers.h"
#include "analyzer/model/groups.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/run.h"

namespace traintrace {
namespace {

Ranks ranks_of(const SequenceGroup& group) {
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
  if (!is_same_function(own, expected)) {
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

bool is_same_call(const SequenceItem* a, const SequenceItem* b) {
  return a != nullptr && b != nullptr && a->key == b->key && a->site == b->site;
}

// It made the same calls right before, and at an earlier time others came between two such: it may
// have left those out instead.
bool may_be_left_out(const Sequence& deviant, const Edit& edit) {
  const uint64_t length = edit.length;
  const auto repeats = [&](uint64_t number) {
    return is_same_call(deviant.at(number), deviant.at(edit.own_number));
  };
  if (edit.own_number <= length ||
      (!repeats(edit.own_number - length) && !repeats(edit.own_number + length))) {
    return false;
  }
  for (uint64_t number = deviant.first; number + 2 * length <= edit.own_number; ++number) {
    if (repeats(number) && !repeats(number + length)) {
      return true;
    }
  }
  return false;
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
      found.open = may_be_left_out(deviant, edit);
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
  const Alignment alignment = align(deviant, normal, split.from, Compared::kMembers);
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

// When the member called what is as `call`, before `until`.
std::vector<TimeNs> calls_of(const Sequence& sequence, const SequenceItem& call, TimeNs until) {
  std::vector<TimeNs> times;
  for (const SequenceItem& item : sequence.items) {
    if (item.key == call.key && item.operation.enter < until) {
      times.push_back(item.operation.enter);
    }
  }
  return times;
}

// It seems to have left something out, or to have called another function, and came to that call
// from where it never came to it before, nor to what the others called: it came to it out of order,
// and what the others called is still before it.
bool is_out_of_order(const Run& run, const Sequence& deviant, const Sequence& normal,
                     const Divergence& found) {
  const SequenceItem& own = found.own.item;
  const uint64_t number = own.operation.sequence;
  const SequenceItem* const expected = normal.at(found.sequence);
  const SequenceItem* const next = deviant.at(number + 1);
  if (expected == nullptr || deviant.at(number) == nullptr ||
      (next != nullptr && next->key != expected->key)) {
    return false;
  }
  const TimeNs enter = own.operation.enter;
  const Rank rank = deviant.member->rank;
  return is_behind_another(run, rank, enter, calls_of(deviant, own, enter)) &&
         is_behind_another(run, rank, enter, calls_of(deviant, *expected, enter));
}

const Sequence* sequence_of_rank(const std::vector<Sequence>& sequences, Rank rank) {
  const auto found =
      std::find_if(sequences.begin(), sequences.end(),
                   [&](const Sequence& sequence) { return sequence.member->rank == rank; });
  return found == sequences.end() ? nullptr : &*found;
}

// One call is a smaller fault than all that lies between the two.
void take_for_extra(const Run& run, MemberSequences& sequences, Divergence& found) {
  const bool shifted = found.kind == DivergenceKind::kSkipped &&
                       found.sequence_last == found.sequence + found.length - 1;
  if ((!shifted && found.kind != DivergenceKind::kFunction) || !found.exact || found.by_site) {
    return;
  }
  const std::vector<Sequence>& all = sequences.of(found.communicator);
  const Sequence* const deviant = sequence_of_rank(all, found.own.rank);
  const Sequence* const normal = sequence_of_rank(all, found.expected.rank);
  if (deviant != nullptr && normal != nullptr && is_out_of_order(run, *deviant, *normal, found)) {
    found.kind = DivergenceKind::kExtra;
    found.sequence_last = found.sequence;
    found.length = 1;
    found.matches = 0;
  }
}

// From that line it had called what the others call there, whenever it came to it, and after this
// one it did again.
bool is_one_of_the_same(const Sequence& deviant, const SequenceItem& expected,
                        const Divergence& found) {
  size_t before = 0;
  for (const SequenceItem& item : deviant.items) {
    const uint64_t number = item.operation.sequence;
    const bool behind = number > found.sequence && number <= found.sequence + found.matches;
    if ((behind && item.site != expected.site) ||
        ((behind || number < found.sequence) && item.site == expected.site &&
         item.key != expected.key)) {
      return false;
    }
    before += number < found.sequence && item.site == expected.site ? 1 : 0;
  }
  return before > 1;
}

// It seems to have made one call too many, from the line that the others called from at that place
// too: then it made the same call with other arguments.
void take_for_change(MemberSequences& sequences, Divergence& found) {
  if (found.kind != DivergenceKind::kExtra || found.length != 1 || !found.exact || found.by_site ||
      found.sequence_last != found.sequence) {
    return;
  }
  const std::vector<Sequence>& all = sequences.of(found.communicator);
  const Sequence* const deviant = sequence_of_rank(all, found.own.rank);
  const auto other = std::find_if(all.begin(), all.end(), [&](const Sequence& sequence) {
    return contains(found.others, sequence.member->rank) && sequence.at(found.sequence) != nullptr;
  });
  if (deviant == nullptr || deviant->at(found.sequence) == nullptr || other == all.end()) {
    return;
  }
  const SequenceItem& own = *deviant->at(found.sequence);
  const SequenceItem& expected = *other->at(found.sequence);
  if (own.site == 0 || own.site != expected.site || own.function != expected.function ||
      own.key == expected.key || !is_one_of_the_same(*deviant, expected, found)) {
    return;
  }
  found.kind = kind_of_change(own, expected);
  found.own = call_at(*deviant, found.sequence);
  found.expected = call_at(*other, found.sequence);
  found.matches = 0;
  found.by_habit = true;
}

// What a rank called on other communicators since then: by communicator and number, or by the line
// and function, as ranks of one program do that have a communicator of their own each.
using LaterCall = std::tuple<size_t, uint64_t, std::string>;

std::set<LaterCall> calls_since(const Run& run, Rank rank, Rank with, size_t index, TimeNs since) {
  std::set<LaterCall> calls;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const Member* const member = i == index ? nullptr : member_of(run.communicators[i], rank);
    if (member == nullptr) {
      continue;
    }
    const ProcessTrace& trace = run.processes[member->process];
    for (const OperationText& call : text_of(run, *member).recent) {
      if (!call.collective || call.sequence == 0 || call.enter <= since) {
        continue;
      }
      calls.emplace(i, call.sequence, "");
      // Of one that both are members of the number tells.
      const uint64_t site =
          member_of(run.communicators[i], with) != nullptr ? 0 : site_of(trace, call.stack);
      if (site != 0) {
        calls.emplace(run.communicators.size(), site, call_name(trace, call.call));
      }
    }
  }
  return calls;
}

// Both have made one call elsewhere after all that they called on this communicator.
bool have_gone_on(const Run& run, size_t index, const Sequence& a, const Sequence& b) {
  const std::set<LaterCall> calls =
      calls_since(run, a.member->rank, b.member->rank, index, a.items.back().operation.enter);
  const std::set<LaterCall> others =
      calls_since(run, b.member->rank, a.member->rank, index, b.items.back().operation.enter);
  return std::any_of(calls.begin(), calls.end(),
                     [&](const LaterCall& call) { return others.contains(call); });
}

// It seems to have left out a call, or made one in excess, and the last call of one of the two is
// that call: as both called as often as the other and have gone on, it came in another place.
void take_for_other_place(const Run& run, MemberSequences& sequences, Divergence& found) {
  const bool skipped = found.kind == DivergenceKind::kSkipped;
  if ((!skipped && found.kind != DivergenceKind::kExtra) || found.length != 1 || !found.exact ||
      found.by_site || found.matches == 0) {
    return;
  }
  const std::vector<Sequence>& all = sequences.of(found.communicator);
  const Sequence* const deviant = sequence_of_rank(all, found.own.rank);
  const Sequence* const normal = sequence_of_rank(all, found.expected.rank);
  if (deviant == nullptr || normal == nullptr || deviant->items.empty() || normal->items.empty() ||
      deviant->reached != normal->reached || found.matches != deviant->reached - found.sequence) {
    return;
  }
  const Sequence& lacking = skipped ? *deviant : *normal;
  const Sequence& other = skipped ? *normal : *deviant;
  const SequenceItem* const last = lacking.at(lacking.reached);
  if (!is_same_call(last, other.at(found.sequence)) ||
      !have_gone_on(run, found.communicator, *deviant, *normal)) {
    return;
  }
  found.kind = DivergenceKind::kSwapped;
  found.sequence_last = found.sequence;
  found.length = skipped ? 1 : found.matches;
  found.own = call_at(*deviant, found.sequence);
  found.expected = call_at(*normal, found.sequence);
  found.own_second = call_at(*deviant, skipped ? deviant->reached : found.sequence + 1);
}

class Comparer {
 public:
  // The sequences are those of all members; they must outlive it.
  Comparer(const Run& run, size_t index, const std::vector<Sequence>& sequences)
      : index_(index), sequences_(sequences) {
    by_hash_ = std::all_of(sequences.begin(), sequences.end(), [](const Sequence& sequence) {
      return !sequence.hashes.empty() || sequence.reached == 0;
    });
    untraced_ = run.communicators[index].size - static_cast<int>(sequences.size());
  }

  std::vector<Divergence> differences() {
    Comparison how;
    how.by_hash = by_hash_;
    SequenceGroup group = all();
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
  SequenceGroup all() const {
    SequenceGroup group;
    for (const Sequence& sequence : sequences_) {
      group.push_back(&sequence);
    }
    return group;
  }

  std::vector<Divergence> at_split(const Split& split) const {
    const SequenceGroup& most = split.groups[0];
    size_t counted = 0;
    for (const SequenceGroup& group : split.groups) {
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

  static void leave_out(const std::vector<SequenceGroup>& groups, SequenceGroup& from) {
    for (size_t i = 1; i < groups.size(); ++i) {
      std::erase_if(from, [&](const Sequence* sequence) {
        return std::find(groups[i].begin(), groups[i].end(), sequence) != groups[i].end();
      });
    }
  }

  size_t index_;
  const std::vector<Sequence>& sequences_;
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
  MemberSequences sequences(run);
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    if (is_settled(run, run.communicators[i])) {
      continue;
    }
    Comparer comparer(run, i, sequences.of(i));
    std::vector<Divergence> here = comparer.differences();
    if (here.empty()) {
      here = comparer.differences_of_sites();
      std::move(here.begin(), here.end(), std::back_inserter(by_site));
    } else {
      std::move(here.begin(), here.end(), std::back_inserter(found));
    }
    // Of a thousand ranks the sequences of all communicators would be as large as what was read.
    if (here.empty()) {
      sequences.forget(i);
    }
  }
  std::move(by_site.begin(), by_site.end(), std::back_inserter(found));
  find_wrong_peers(run, found);
  find_misplaced_calls(run, sequences, found);
  for (Divergence& one : found) {
    take_for_site_shift(sequences, one);
    take_for_extra(run, sequences, one);
    take_for_change(sequences, one);
    take_for_other_place(run, sequences, one);
    take_for_abandoned_step(run, one);
  }
  merge(found);
  find_other_groups(run, found);
  find_message_faults(run, found);
  return found;
}

Divergence difference_at(const Sequence& deviant, const Sequence& normal, uint64_t number) {
  return compare(deviant, normal, {number, number, {}});
}

}  // namespace traintrace
