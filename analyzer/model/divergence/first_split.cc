#include "analyzer/model/divergence/first_split.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

namespace traintrace {
namespace {

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
std::vector<uint64_t> numbers_known(const SequenceGroup& members, const Comparison& how) {
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
bool all_agree(const SequenceGroup& members, uint64_t number, bool by_hash) {
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

}  // namespace

const Sequence* longest(const SequenceGroup& group) {
  return *std::max_element(group.begin(), group.end(), [](const Sequence* a, const Sequence* b) {
    return std::tuple(a->items.size(), b->member->rank) <
           std::tuple(b->items.size(), a->member->rank);
  });
}

std::optional<Split> first_split(const SequenceGroup& members, const Comparison& how) {
  for (const uint64_t number : numbers_known(members, how)) {
    if (all_agree(members, number, how.by_hash)) {
      continue;
    }
    std::map<uint64_t, SequenceGroup> by_token;
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
    std::sort(split.groups.begin(), split.groups.end(),
              [](const SequenceGroup& a, const SequenceGroup& b) {
                return std::tuple(b.size(), a.front()->member->rank) <
                       std::tuple(a.size(), b.front()->member->rank);
              });
    split.from = agreed_until(*longest(split.groups[0]), *longest(split.groups[1]), number, how);
    return split;
  }
  return std::nullopt;
}

void order_by_habit(Split& split) {
  std::vector<SequenceGroup>& groups = split.groups;
  if (groups.size() == 2 && groups[0].size() == groups[1].size() && split.number > 1 &&
      familiarity(*longest(groups[0]), split.number) <
          familiarity(*longest(groups[1]), split.number)) {
    std::swap(groups[0], groups[1]);
  }
}

}  // namespace traintrace
