#include "analyzer/model/divergence/found_by_rank.h"

#include <algorithm>

namespace traintrace {
namespace {

std::pair<size_t, size_t> pair_of(size_t a, size_t b) {
  return {std::min(a, b), std::max(a, b)};
}

}  // namespace

FoundByRank::FoundByRank(std::vector<Divergence>& found)
    : all_(std::move(found)), erased_(all_.size()) {
  found.clear();
  for (size_t number = 0; number < all_.size(); ++number) {
    list(number);
  }
}

std::span<const size_t> FoundByRank::of(size_t communicator, Rank rank) const {
  const auto found = by_rank_.find({communicator, rank});
  return found == by_rank_.end() ? std::span<const size_t>() : found->second;
}

bool FoundByRank::is_swapped(size_t a, size_t b) const {
  return swapped_.contains(pair_of(a, b));
}

void FoundByRank::add(Divergence one) {
  all_.push_back(std::move(one));
  erased_.push_back(false);
  list(all_.size() - 1);
  ++changes_;
}

size_t FoundByRank::erase(size_t communicator, Rank rank) {
  const auto found = by_rank_.find({communicator, rank});
  if (found == by_rank_.end()) {
    return 0;
  }
  const std::vector<size_t> numbers = std::move(found->second);
  by_rank_.erase(found);
  for (const size_t number : numbers) {
    erased_[number] = true;
    const Divergence& one = all_[number];
    if (const auto swapped = swapped_.find(pair_of(one.communicator, one.used));
        one.kind == DivergenceKind::kOtherCommunicator && --swapped->second == 0) {
      swapped_.erase(swapped);
    }
  }
  changes_ += numbers.size();
  return numbers.size();
}

void FoundByRank::put_back(std::vector<Divergence>& found) {
  for (size_t number = 0; number < all_.size(); ++number) {
    if (!erased_[number]) {
      found.push_back(std::move(all_[number]));
    }
  }
}

void FoundByRank::list(size_t number) {
  const Divergence& one = all_[number];
  if (one.deviants.size() == 1) {
    by_rank_[{one.communicator, one.deviants.front()}].push_back(number);
    if (one.kind == DivergenceKind::kOtherCommunicator) {
      ++swapped_[pair_of(one.communicator, one.used)];
    }
  }
}

}  // namespace traintrace
