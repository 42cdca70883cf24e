#include "analyzer/model/divergence/site_shift.h"
#include "analyzer/thresholds.h"

#include <algorithm>
#include <map>
#include <optional>

namespace traintrace {
namespace {

bool same_call(const SequenceItem* a, const SequenceItem* b) {
  return a != nullptr && b != nullptr && a->key == b->key && a->site != 0 && a->site == b->site;
}

// `behind` left out `length` calls that `ahead` made.
std::optional<SiteShift> shift_between(const Sequence& behind, const Sequence& ahead,
                                       uint64_t length) {
  uint64_t shifted = behind.reached + 1;  // from there on it agrees with the calls further on
  while (shifted > behind.first &&
         same_call(behind.at(shifted - 1), ahead.at(shifted - 1 + length))) {
    --shifted;
  }
  const uint64_t begin = std::max(behind.first, ahead.first);
  uint64_t agreed = begin;  // up to there with those at the same place
  while (agreed <= behind.reached && same_call(behind.at(agreed), ahead.at(agreed))) {
    ++agreed;
  }
  const uint64_t matches = behind.reached + 1 - shifted;
  // All the same lines: nothing is told.
  if (agreed > behind.reached || agreed < shifted || matches == 0) {
    return std::nullopt;
  }
  SiteShift found;
  found.length = length;
  found.matches = matches;
  found.number = shifted > begin ? shifted : 1;
  found.number_last = agreed + length - 1;
  return found;
}

std::optional<SiteShift> shift_of(const Sequence& deviant, const Sequence& normal) {
  const bool extra = deviant.reached > normal.reached;
  const Sequence& behind = extra ? normal : deviant;
  const Sequence& ahead = extra ? deviant : normal;
  for (uint64_t length = 1; length <= std::min(kLongestShift, ahead.reached - behind.reached);
       ++length) {
    if (auto found = shift_between(behind, ahead, length)) {
      found->deviant = &deviant;
      found->normal = &normal;
      found->extra = extra;
      return found;
    }
  }
  return std::nullopt;
}

// All that both keep was called from the same lines.
bool same_lines(const Sequence& a, const Sequence& b) {
  const uint64_t last = std::min(a.reached, b.reached);
  for (uint64_t number = std::max(a.first, b.first); number <= last; ++number) {
    if (!same_call(a.at(number), b.at(number))) {
      return false;
    }
  }
  return true;
}

// The most that called from the same lines.
std::vector<const Sequence*> largest_party(const std::vector<const Sequence*>& members) {
  std::vector<std::vector<const Sequence*>> parties;
  for (const Sequence* member : members) {
    const auto own = std::find_if(parties.begin(), parties.end(), [&](const auto& party) {
      return same_lines(*party.front(), *member);
    });
    (own == parties.end() ? parties.emplace_back() : *own).push_back(member);
  }
  return *std::max_element(parties.begin(), parties.end(),
                           [](const auto& a, const auto& b) { return a.size() < b.size(); });
}

using ByCount = std::map<uint64_t, std::vector<const Sequence*>>;

// Seen from one of two of the others: to compare all with all takes long, and is seldom needed.
bool may_shift(const ByCount& by_count, const std::vector<const Sequence*>& most) {
  return std::any_of(by_count.begin(), by_count.end(), [&](const auto& members) {
    return &members.second != &most &&
           std::any_of(members.second.begin(), members.second.end(), [&](const Sequence* member) {
             return shift_of(*member, *most.front()) || shift_of(*member, *most.back());
           });
  });
}

}  // namespace

std::vector<SiteShift> find_site_shifts(const std::vector<Sequence>& sequences) {
  ByCount by_count;
  for (const Sequence& sequence : sequences) {
    by_count[sequence.reached].push_back(&sequence);
  }
  const auto most = std::max_element(by_count.begin(), by_count.end(), [](auto& a, auto& b) {
    return a.second.size() < b.second.size();
  });
  if (most == by_count.end() || !may_shift(by_count, most->second)) {
    return {};
  }
  const std::vector<const Sequence*> normal = largest_party(most->second);
  if (2 * normal.size() <= sequences.size()) {
    return {};
  }
  std::vector<SiteShift> found;
  for (const auto& [count, members] : by_count) {
    for (const Sequence* deviant :
         count == most->first ? std::vector<const Sequence*>{} : members) {
      if (auto shift = shift_of(*deviant, *normal.front())) {
        for (const Sequence* other : normal) {
          insert(shift->others, other->member->rank);
        }
        found.push_back(*shift);
      }
    }
  }
  return found;
}

namespace {

bool is_same_line(const SequenceItem* a, const SequenceItem* b) {
  return a != nullptr && b != nullptr && a->key == b->key && a->site == b->site;
}

// The first that both keep which came from different lines, or has other arguments; all before it
// agree.
uint64_t first_other_line(const Sequence& a, const Sequence& b) {
  uint64_t number = std::max(a.first, b.first);
  while (is_same_line(a.at(number), b.at(number))) {
    ++number;
  }
  return number;
}

// How many calls of `longer` from `length` behind `number` on agree with those of `shorter` from
// `number` on; 0: not all that is known.
uint64_t matches_shifted(const Sequence& longer, const Sequence& shorter, uint64_t number,
                         uint64_t length) {
  uint64_t matches = 0;
  while (is_same_line(longer.at(number + length + matches), shorter.at(number + matches))) {
    ++matches;
  }
  const bool to_the_end =
      longer.at(number + length + matches) == nullptr || shorter.at(number + matches) == nullptr;
  return to_the_end ? matches : 0;
}

SideCall side_at(const Sequence& sequence, uint64_t number) {
  return {sequence.member->rank, sequence.member->process, *sequence.at(number)};
}

const Sequence* sequence_of(const std::vector<Sequence>& all, Rank rank) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Sequence& sequence) {
    return sequence.member->rank == rank;
  });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

void take_for_site_shift(MemberSequences& sequences, Divergence& found) {
  const std::vector<Sequence>& all = sequences.of(found.communicator);
  const Sequence* const deviant = sequence_of(all, found.own.rank);
  const Sequence* const normal = sequence_of(all, found.expected.rank);
  if (deviant == nullptr || normal == nullptr || deviant == normal || is_harmless(found.kind)) {
    return;
  }
  const uint64_t number = first_other_line(*deviant, *normal);
  const SequenceItem* const own = deviant->at(number);
  const SequenceItem* const expected = normal->at(number);
  // It is known that they had agreed, and that arguments do not tell this.
  if (number < std::max(deviant->first, normal->first) + kHabitTimes || number >= found.sequence ||
      own == nullptr || expected == nullptr || own->site == 0 || expected->site == 0) {
    return;
  }
  for (uint64_t length = 1; length <= kLongestShift; ++length) {
    if (matches_shifted(*deviant, *normal, number + length, 0) > 0) {
      return;  // in its place, a step that was called from other lines
    }
    const uint64_t extra = matches_shifted(*deviant, *normal, number, length);
    const uint64_t skipped = matches_shifted(*normal, *deviant, number, length);
    if (std::max(extra, skipped) < kHabitTimes) {
      continue;
    }
    found.kind = extra > skipped ? DivergenceKind::kExtra : DivergenceKind::kSkipped;
    found.sequence = found.sequence_last = number;
    found.length = length;
    found.matches = std::max(extra, skipped);
    found.more = 0;
    found.exact = true;
    found.own = side_at(*deviant, number);
    found.expected = side_at(*normal, number);
    return;
  }
}

}  // namespace traintrace
