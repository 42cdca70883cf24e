#include "analyzer/reporters/diff_numbers.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/text/units.h"

namespace traintrace {
namespace {

constexpr size_t kMostShown = 10;

std::string value_headline(const ValueDiff& diff) {
  return fmt::format("{} {} {} at {} by {}", diff.is_batch ? "batch" : "value", diff.number,
                     diff.is_batch ? "sent" : "fetched", diff.place, ranks_text(diff.ranks));
}

}  // namespace

std::string numbers_verdict(const NumbersDiff& diff) {
  return diff.differences.empty()
             ? ""
             : fmt::format("the first {} that differs is {}",
                           diff.differences.front().is_batch ? "data" : "number",
                           value_headline(diff.differences.front()));
}

std::string numbers_text(const NumbersDiff& diff) {
  std::string text;
  const size_t shown = std::min(diff.differences.size(), kMostShown);
  for (size_t i = 0; i < shown; ++i) {
    const ValueDiff& one = diff.differences[i];
    text += fmt::format("{} differs, those before are the same\n    A: {}at +{}\n    B: {}at +{}\n",
                        value_headline(one), one.a.empty() ? "" : one.a + " ",
                        duration_text(one.since_a), one.b.empty() ? "" : one.b + " ",
                        duration_text(one.since_b));
  }
  if (shown < diff.differences.size()) {
    text += fmt::format("values: {} lines more differ\n", diff.differences.size() - shown);
  }
  if (diff.same != 0) {
    text += fmt::format("values: {} series are the same\n", diff.same);
  }
  if (diff.incomplete != 0) {
    text += fmt::format("values: {} series cannot be compared: records of them were overwritten\n",
                        diff.incomplete);
  }
  return text;
}

nlohmann::ordered_json numbers_json(const NumbersDiff& diff) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const ValueDiff& one : diff.differences) {
    nlohmann::ordered_json json = {{"kind", one.is_batch ? "batch" : "scalar"},
                                   {"ranks", nlohmann::ordered_json::array()},
                                   {"where", one.place},
                                   {"number", one.number},
                                   {"a_since_ns", one.since_a},
                                   {"b_since_ns", one.since_b}};
    for (const Rank rank : one.ranks) {
      json["ranks"].push_back(rank.value);
    }
    if (!one.is_batch) {
      json["a"] = one.a;
      json["b"] = one.b;
    }
    all.push_back(std::move(json));
  }
  return {{"differences", std::move(all)},
          {"same_count", diff.same},
          {"incomplete_count", diff.incomplete}};
}

}  // namespace traintrace
