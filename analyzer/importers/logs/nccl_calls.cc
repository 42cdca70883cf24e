#include "analyzer/importers/logs/nccl_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/model/ids.h"

namespace traintrace {

void NcclCalls::number_by_order() {
  by_order_ =
      std::all_of(calls_.begin(), calls_.end(), [](const auto& call) { return call.first == 0; });
  for (size_t i = 0; by_order_ && i < calls_.size(); ++i) {
    calls_[i].first = i;
  }
}

uint32_t NcclCalls::only_one_at(uint64_t operation) const {
  const auto first =
      std::lower_bound(calls_.begin(), calls_.end(), operation,
                       [](const auto& call, uint64_t number) { return call.first < number; });
  const bool is_there = first != calls_.end() && first->first == operation;
  return is_there && (first + 1 == calls_.end() || (first + 1)->first != operation) ? first->second
                                                                                    : 0;
}

uint32_t NcclCallNames::number_of(std::string_view text) {
  constexpr size_t kMostNames = 1 << 16;
  const auto known = numbers_.find(text);
  if (known != numbers_.end()) {
    return known->second;
  }
  if (texts_.size() == kMostNames) {
    return 0;
  }
  texts_.emplace_back(text);
  return numbers_[std::string(text)] = static_cast<uint32_t>(texts_.size());
}

namespace {

// Who called what as that operation; empty where it is not told of each rank, once.
std::map<uint32_t, Ranks> callers_at(uint64_t operation,
                                     const std::map<int, const NcclCalls*>& ranks) {
  std::map<uint32_t, Ranks> callers;
  for (const auto& [rank, calls] : ranks) {
    const uint32_t what = calls->only_one_at(operation);
    if (what == 0) {
      return {};
    }
    insert(callers[what], Rank{rank});
  }
  return callers;
}

std::string difference_text(const std::string& which, size_t size,
                            const std::map<uint32_t, Ranks>& callers, const NcclCallNames& names) {
  std::vector<std::pair<uint32_t, Ranks>> sides(callers.begin(), callers.end());
  std::stable_sort(sides.begin(), sides.end(),
                   [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  constexpr size_t kMostSides = 3;
  std::string text = fmt::format("as {} on the communicator of {} ranks ", which, size);
  for (size_t i = 0; i < std::min(sides.size(), kMostSides); ++i) {
    text += fmt::format("{}{} called {}", i == 0 ? "" : ", ", ranks_text(sides[i].second),
                        names[sides[i].first]);
  }
  return text + (sides.size() > kMostSides ? ", and others otherwise" : "");
}

}  // namespace

std::string first_difference(const std::map<int, const NcclCalls*>& ranks,
                             const NcclCallNames& names) {
  const bool comparable = std::all_of(
      ranks.begin(), ranks.end(), [](const auto& rank) { return rank.second->is_comparable(); });
  const size_t by_order = static_cast<size_t>(std::count_if(
      ranks.begin(), ranks.end(), [](const auto& rank) { return rank.second->is_by_order(); }));
  if (ranks.size() < 2 || !comparable || (by_order != 0 && by_order != ranks.size())) {
    return "";
  }
  // Where not one before it was the same on all, the ranks may not number alike.
  bool any_same = false;
  for (const auto& [operation, what] : ranks.begin()->second->all()) {
    const std::map<uint32_t, Ranks> callers = callers_at(operation, ranks);
    if (callers.size() > 1) {
      const std::string which = by_order == 0 ? fmt::format("operation {:x}", operation)
                                              : fmt::format("collective number {}", operation + 1);
      return any_same || operation == 0 ? difference_text(which, ranks.size(), callers, names) : "";
    }
    any_same = any_same || callers.size() == 1;
  }
  return "";
}

}  // namespace traintrace
