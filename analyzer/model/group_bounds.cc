// Members that grouped the same collectives differently: NCCL plans a group as a whole, and so may
// run its operations in another order, or by other algorithms, than others do one by one.
#include <algorithm>
#include <optional>

#include "analyzer/model/groups.h"
#include "analyzer/model/sequences.h"

namespace traintrace {
namespace {

bool is_known(const SequenceItem& item) {
  const bool grouped = (item.operation.flags & format::kGrouped) != 0;
  return (item.operation.flags & format::kReplayed) == 0 && grouped == (item.operation.group != 0);
}

// Was it called in one group with the collective before it?  Nothing: not known.
std::optional<bool> is_joined(const Sequence& sequence, uint64_t number) {
  const SequenceItem* item = sequence.at(number);
  const SequenceItem* before = number == 0 ? nullptr : sequence.at(number - 1);
  if (item == nullptr || before == nullptr || !is_known(*item) || !is_known(*before)) {
    return std::nullopt;
  }
  return item->operation.group != 0 && item->operation.group == before->operation.group;
}

SideCall bound_call(const Sequence& sequence, uint64_t number) {
  return {sequence.member->rank, sequence.member->process, *sequence.at(number)};
}

Divergence other_groups(const std::vector<Sequence>& sequences, uint64_t number) {
  std::vector<const Sequence*> sides[2];
  for (const Sequence& sequence : sequences) {
    sides[*is_joined(sequence, number) ? 1 : 0].push_back(&sequence);
  }
  const bool joined_are_fewer = sides[1].size() <= sides[0].size();
  const auto& fewer = sides[joined_are_fewer ? 1 : 0];
  const auto& more = sides[joined_are_fewer ? 0 : 1];
  Divergence one;
  one.kind = DivergenceKind::kGroups;
  one.sequence = one.sequence_last = one.met = number - 1;
  for (const Sequence* sequence : fewer) {
    insert(one.deviants, sequence->member->rank);
  }
  for (const Sequence* sequence : more) {
    insert(one.others, sequence->member->rank);
  }
  one.parts = {one.deviants};
  one.tie = fewer.size() == more.size();
  one.exact = one.complete = true;
  one.own = bound_call(*fewer.front(), number - 1);
  one.expected = bound_call(*more.front(), number - 1);
  one.own_second = bound_call(*fewer.front(), number);
  return one;
}

std::optional<Divergence> first_in(const std::vector<Sequence>& sequences) {
  uint64_t first = 0;
  uint64_t last = sequences.front().reached;
  for (const Sequence& sequence : sequences) {
    first = std::max(first, sequence.first);
    last = std::min(last, sequence.reached);
  }
  for (uint64_t number = first + 1; number <= last; ++number) {
    bool known = true;
    bool joined = false;
    bool apart = false;
    for (const Sequence& sequence : sequences) {
      const auto one = is_joined(sequence, number);
      known = known && one.has_value();
      joined = joined || (one && *one);
      apart = apart || (one && !*one);
    }
    if (known && joined && apart) {
      return other_groups(sequences, number);
    }
  }
  return std::nullopt;
}

bool has_groups(const Run& run, const Communicator& communicator) {
  return std::any_of(
      communicator.members.begin(), communicator.members.end(), [&](const Member& member) {
        const auto& recent = text_of(run, member).recent;
        return std::any_of(recent.begin(), recent.end(), [](const OperationText& operation) {
          return operation.collective && operation.group != 0;
        });
      });
}

}  // namespace

void find_other_groups(const Run& run, std::vector<Divergence>& found) {
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const Communicator& communicator = run.communicators[i];
    const bool differs = std::any_of(found.begin(), found.end(),
                                     [&](const Divergence& one) { return one.communicator == i; });
    if (differs || static_cast<int>(communicator.members.size()) != communicator.size ||
        communicator.size < 2 || !has_groups(run, communicator)) {
      continue;
    }
    std::vector<Sequence> sequences;
    for (const Member& member : communicator.members) {
      sequences.push_back(sequence_of(run, member));
    }
    if (auto one = first_in(sequences)) {
      one->communicator = i;
      found.push_back(std::move(*one));
    }
  }
}

}  // namespace traintrace
