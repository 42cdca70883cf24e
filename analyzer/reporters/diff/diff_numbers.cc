#include "analyzer/reporters/diff/diff_numbers.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/text/units.h"

namespace traintrace {
namespace {

constexpr size_t kMostShown = 10;

bool is_of_operation(const ValueDiff& diff) {
  return diff.kind == DiffedValue::kInput || diff.kind == DiffedValue::kResult;
}

std::string value_headline(const ValueDiff& diff) {
  const std::string ranks = ranks_text(diff.ranks);
  switch (diff.kind) {
    case DiffedValue::kScalar:
      return fmt::format("value {} fetched at {} by {}", diff.number, diff.place, ranks);
    case DiffedValue::kBatch:
      return fmt::format("batch {} sent at {} by {}", diff.number, diff.place, ranks);
    case DiffedValue::kInput:
      return fmt::format("what {} gave {} at {}", ranks, diff.operation, diff.place);
    case DiffedValue::kResult:
      return fmt::format("what {} gave {} at {}", diff.operation, ranks, diff.place);
  }
  return "";
}

constexpr const char* kValueKinds[] = {"scalar", "batch", "input", "result"};
constexpr const char* kValueWords[] = {"number", "data", "input of a collective",
                                       "result of a collective"};

const char* word_of(const ValueDiff& diff) {
  return kValueWords[static_cast<size_t>(diff.kind)];
}

std::string condition_text(const ConditionDiff& condition) {
  const auto value = [](const std::string& text) { return text.empty() ? "not set" : text; };
  return fmt::format(
      "    {}{}: A {}; B {}\n", condition.name,
      condition.ranks.empty() ? "" : fmt::format(" of {}", ranks_text(condition.ranks)),
      value(condition.a), value(condition.b));
}

// An order of adding that was another one rounds otherwise.
std::string result_text(const ValueDiff& diff) {
  std::string text = "    its inputs are the same on all ranks: the operation itself differs";
  if (diff.conditions.empty()) {
    const std::string same =
        diff.same_conditions.empty() ? "" : fmt::format(", {}", diff.same_conditions);
    return text +
           fmt::format(
               "\n    what is recorded of NCCL is the same in both{}: an algorithm that does not "
               "repeat its order of adding (NVLS), another one that NCCL chose by itself, a race, "
               "or a defect; the norms say how much it is\n",
               same);
  }
  text += ", as does what it depends on\n";
  for (const ConditionDiff& condition : diff.conditions) {
    text += condition_text(condition);
  }
  return text;
}

// What that means, of operations.
std::string reason_text(const ValueDiff& diff) {
  return diff.kind == DiffedValue::kResult ? result_text(diff)
         : diff.kind == DiffedValue::kInput
             ? fmt::format("    so what {} computed before it differs{}\n", ranks_text(diff.ranks),
                           diff.before.empty() ? "" : ", after " + diff.before)
             : "";
}

nlohmann::ordered_json conditions_json(const ValueDiff& diff) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const ConditionDiff& condition : diff.conditions) {
    all.push_back({{"name", condition.name},
                   {"ranks", nlohmann::ordered_json::array()},
                   {"a", condition.a},
                   {"b", condition.b}});
    for (const Rank rank : condition.ranks) {
      all.back()["ranks"].push_back(rank.value);
    }
  }
  return all;
}

const char* later_run(const NumbersDiff& diff) {
  return diff.later == DiffedRun::kA ? "A" : "B";
}
const char* earlier_run(const NumbersDiff& diff) {
  return diff.later == DiffedRun::kA ? "B" : "A";
}

std::string again_text(const NumbersDiff& diff, const ReadAgain& again) {
  return fmt::format(
      "data: {} begins with {} batches that {} sent before it, at {}: {} of the {} of {}; the "
      "first "
      "of rank {} is batch {} of {} of {}'s rank {}{}\n",
      later_run(diff), again.count, earlier_run(diff), again.place, again.count, again.all,
      ranks_text(again.ranks), again.rank.value, again.number, again.of_number, earlier_run(diff),
      again.earlier_rank.value,
      diff.again_from_start
          ? fmt::format("; the first number that it fetches is another, so it has other weights: "
                        "if {} resumed {}'s work, its data began again",
                        later_run(diff), earlier_run(diff))
          : "");
}

nlohmann::ordered_json again_json(const NumbersDiff& diff) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const ReadAgain& again : diff.again) {
    nlohmann::ordered_json json = {{"later", later_run(diff)},
                                   {"where", again.place},
                                   {"ranks", nlohmann::ordered_json::array()},
                                   {"again_count", again.count},
                                   {"batch_count", again.all},
                                   {"rank", again.rank.value},
                                   {"earlier_rank", again.earlier_rank.value},
                                   {"earlier_number", again.number},
                                   {"earlier_count", again.of_number},
                                   {"from_start", diff.again_from_start}};
    for (const Rank rank : again.ranks) {
      json["ranks"].push_back(rank.value);
    }
    all.push_back(std::move(json));
  }
  return all;
}

}  // namespace

std::string numbers_verdict(const NumbersDiff& diff) {
  return diff.differences.empty()
             ? ""
             : fmt::format("the first {} that differs is {}", word_of(diff.differences.front()),
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
    text += reason_text(one);
  }
  for (const ReadAgain& again : diff.again) {
    text += again_text(diff, again);
  }
  if (shown < diff.differences.size()) {
    text += fmt::format("values: {} lines more differ\n", diff.differences.size() - shown);
  }
  if (diff.same != 0) {
    text += fmt::format("values: {} series are the same\n", diff.same);
  }
  if (diff.same_operations != 0) {
    text +=
        fmt::format("values: {} checked operations {}are the same\n", diff.same_operations,
                    std::any_of(diff.differences.begin(), diff.differences.end(), is_of_operation)
                        ? "before the first that differs "
                        : "");
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
    nlohmann::ordered_json json = {{"kind", kValueKinds[static_cast<size_t>(one.kind)]},
                                   {"ranks", nlohmann::ordered_json::array()},
                                   {"where", one.place},
                                   {"number", one.number},
                                   {"a_since_ns", one.since_a},
                                   {"b_since_ns", one.since_b}};
    for (const Rank rank : one.ranks) {
      json["ranks"].push_back(rank.value);
    }
    if (is_of_operation(one)) {
      json["operation"] = one.operation;
      json["before"] = one.before;
    }
    if (one.kind == DiffedValue::kResult) {
      json["conditions"] = conditions_json(one);
    }
    if (one.kind != DiffedValue::kBatch) {
      json["a"] = one.a;
      json["b"] = one.b;
    }
    all.push_back(std::move(json));
  }
  nlohmann::ordered_json json = {{"differences", std::move(all)},
                                 {"same_count", diff.same},
                                 {"incomplete_count", diff.incomplete}};
  if (diff.same_operations != 0) {
    json["same_operation_count"] = diff.same_operations;
  }
  if (!diff.again.empty()) {
    json["read_again"] = again_json(diff);
  }
  return json;
}

}  // namespace traintrace
