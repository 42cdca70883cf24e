#include "analyzer/importers/kineto/merged_parts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <set>
#include <utility>

namespace traintrace::kineto {
namespace {

enum Axis : size_t { kTensor, kData, kPipeline, kExpert, kAxes };
constexpr std::string_view kAxisNames[kAxes] = {"TP", "DP", "PP", "EP"};

using Place = std::array<int, kAxes>;

// "TP01-DP00": nothing where anything else stands in it.
std::optional<Place> place_of(std::string_view part) {
  Place place = {};
  bool any = false;
  while (!part.empty()) {
    const std::string_view word = part.substr(0, part.find('-'));
    part.remove_prefix(std::min(part.size(), word.size() + 1));
    const auto* const axis =
        std::find(std::begin(kAxisNames), std::end(kAxisNames), word.substr(0, 2));
    if (axis == std::end(kAxisNames)) {
      return std::nullopt;
    }
    const std::string_view digits = word.substr(2);
    int number = -1;
    const auto [end, problem] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (problem != std::errc() || end != digits.data() + digits.size() || number < 0) {
      return std::nullopt;
    }
    place[static_cast<size_t>(axis - kAxisNames)] = number;
    any = true;
  }
  return any ? std::optional(place) : std::nullopt;
}

}  // namespace

std::optional<MergedPid> merged_pid(std::string_view token) {
  constexpr std::string_view kBegin = "\"[";
  constexpr std::string_view kBetween = "] ";
  if (!token.starts_with(kBegin) || !token.ends_with('"')) {
    return std::nullopt;
  }
  token = token.substr(kBegin.size(), token.size() - kBegin.size() - 1);
  const size_t end = token.find(kBetween);
  if (end == token.npos || !place_of(token.substr(0, end))) {
    return std::nullopt;
  }
  return MergedPid{token.substr(0, end), token.substr(end + kBetween.size())};
}

std::vector<int> ranks_of_parts(const std::vector<std::string>& parts) {
  std::vector<Place> places;
  std::set<std::pair<int, int>> within;  // one copy of the model
  for (const std::string& part : parts) {
    const Place& place = places.emplace_back(place_of(part).value_or(Place{}));
    within.emplace(place[kPipeline], place[kTensor]);
  }
  const bool is_one_copy = within.size() == places.size();
  const auto key = [&](size_t i) {
    const Place& place = places[i];
    return std::array{is_one_copy ? 0 : place[kData], place[kPipeline], place[kTensor],
                      place[kExpert], static_cast<int>(i)};
  };
  std::vector<size_t> order(parts.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  std::vector<int> ranks(parts.size());
  for (size_t rank = 0; rank < order.size(); ++rank) {
    ranks[order[rank]] = static_cast<int>(rank);
  }
  return ranks;
}

}  // namespace traintrace::kineto
