#include "analyzer/reporters/diff/diff_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/reporters/diff/diff_memory.h"
#include "analyzer/reporters/diff/diff_numbers.h"
#include "analyzer/reporters/diff/diff_time.h"
#include "analyzer/text/printable.h"
#include "analyzer/text/values.h"

namespace traintrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKindNames[] = {"same", "differs", "ends", "unknown"};

std::string number_text(const SequenceDiff& diff) {
  return diff.sequence == diff.sequence_last
             ? fmt::format("#{}", diff.sequence)
             : fmt::format("one of #{}..#{}", diff.sequence, diff.sequence_last);
}

std::string item_text(const DiffSide& side) {
  if (!side.item) {
    return "not kept";
  }
  return arguments_text(side.item->function, side.item->operation) +
         (side.place.empty() ? "" : " at " + side.place);
}

std::string headline(const SequenceDiff& diff) {
  const std::string who =
      fmt::format("{} on communicator {}", ranks_text(diff.ranks), diff.communicator);
  switch (diff.kind) {
    case DiffKind::kDiffers:
      return fmt::format("{}: the first difference is {}", who, number_text(diff));
    case DiffKind::kEnds: {
      const bool first = diff.a.collectives < diff.b.collectives;
      return fmt::format("{}: the same calls until {} ends, after #{}; {} goes on to #{}", who,
                         first ? "A" : "B", diff.sequence - 1, first ? "B" : "A",
                         std::max(diff.a.collectives, diff.b.collectives));
    }
    case DiffKind::kUnknown:
      return fmt::format(
          "{}: cannot be compared: A issued {} collectives and B {}, and no place is kept of both",
          who, diff.a.collectives, diff.b.collectives);
    case DiffKind::kSame:
      break;
  }
  return fmt::format("{}: the same, {} collectives{}", who, diff.a.collectives,
                     diff.compared_from > 1
                         ? fmt::format(", as far as kept: from #{} on", diff.compared_from)
                         : "");
}

Json json_of(const DiffSide& side) {
  Json json = {{"collectives", side.collectives}};
  if (side.item) {
    const OperationText& operation = side.item->operation;
    json["operation"] = side.item->function;
    json["count"] = operation.count;
    json["type"] = operation.data_type < 0 ? "" : data_type_name(operation.data_type);
    if (operation.reduction >= 0) {
      json["reduction"] = reduction_name(operation.reduction);
    }
    if (operation.peer >= 0) {
      json["root"] = operation.peer;
    }
  }
  if (!side.place.empty()) {
    json["where"] = side.place;
  }
  return json;
}

Json json_of(const SequenceDiff& diff) {
  Json json = {{"kind", kKindNames[static_cast<size_t>(diff.kind)]},
               {"communicator", diff.communicator},
               {"ranks", Json::array()}};
  for (const Rank rank : diff.ranks) {
    json["ranks"].push_back(rank.value);
  }
  if (diff.sequence != 0) {
    json["sequence"] = diff.sequence;
    if (diff.sequence_last != diff.sequence) {
      json["sequence_last"] = diff.sequence_last;
    }
  }
  json["compared_from"] = diff.compared_from;
  json["a"] = json_of(diff.a);
  json["b"] = json_of(diff.b);
  return json;
}

bool differs(const SequenceDiff& diff) {
  return diff.kind == DiffKind::kDiffers;
}

// "; of ranks 4-7 only A has traces"; or nothing.
std::string not_compared_text(const RunDiff& diff) {
  std::string text;
  for (const auto& [ranks, run] :
       {std::pair(&diff.ranks_only_in_a, 'A'), std::pair(&diff.ranks_only_in_b, 'B')}) {
    if (!ranks->empty()) {
      text += fmt::format("; of {} only {} has traces", ranks_text(*ranks), run);
    }
  }
  return text;
}

std::string verdict(const RunDiff& diff) {
  const std::string not_compared = not_compared_text(diff);
  if (!diff.sequences.empty() && diff.sequences.front().kind != DiffKind::kSame) {
    return headline(diff.sequences.front()) + not_compared;
  }
  if (diff.only_in_a.empty() && diff.only_in_b.empty()) {
    return (not_compared.empty() ? "no difference in the collectives of the two runs"
            : diff.sequences.empty()
                ? "nothing to compare: the runs have no communicator of the same ranks"
                : "no difference in the collectives of the ranks of which both runs have traces") +
           not_compared;
  }
  return "the runs have different communicators" + not_compared;
}

std::string verdict(const Difference& diff) {
  std::string text;
  const auto add = [&](const std::string& part) {
    text += (text.empty() || part.empty() ? "" : "; ") + part;
  };
  add(diff.calls == nullptr ? "" : verdict(*diff.calls));
  add(diff.numbers == nullptr ? "" : numbers_verdict(*diff.numbers));
  add(diff.time == nullptr ? "" : time_verdict(*diff.time));
  add(memory_verdict(diff.memory));
  return text;
}

std::string calls_text(const RunDiff& diff) {
  std::string text;
  for (const SequenceDiff& one : diff.sequences) {
    text += printable(headline(one)) + '\n';
    if (differs(one) || one.a.item || one.b.item) {
      text +=
          "    A: " + (one.a.item || differs(one) ? printable(item_text(one.a)) : "nothing") + '\n';
      text +=
          "    B: " + (one.b.item || differs(one) ? printable(item_text(one.b)) : "nothing") + '\n';
    }
  }
  for (const auto& [names, run] :
       {std::pair(&diff.only_in_a, 'A'), std::pair(&diff.only_in_b, 'B')}) {
    for (const std::string& name : *names) {
      text += fmt::format("communicator {}: only in {}\n", printable(name), run);
    }
  }
  return text;
}

}  // namespace

std::string diff_verdict(const Difference& diff) {
  return verdict(diff);
}

std::string diff_text(const Difference& diff) {
  return printable_lines("verdict: " + verdict(diff) + "\n\n" +
                         (diff.calls == nullptr ? "" : calls_text(*diff.calls)) +
                         (diff.numbers == nullptr ? "" : numbers_text(*diff.numbers)) +
                         (diff.time == nullptr ? "" : time_text(*diff.time)) +
                         memory_text(diff.memory));
}

std::string diff_json(const Difference& diff) {
  const RunDiff none;
  const RunDiff& calls = diff.calls == nullptr ? none : *diff.calls;
  Json json = {{"schema", "traintrace.diff/1"},
               {"verdict", verdict(diff)},
               {"sequences", Json::array()},
               {"only_in_a", calls.only_in_a},
               {"only_in_b", calls.only_in_b}};
  for (const auto& [ranks, name] : {std::pair(&calls.ranks_only_in_a, "ranks_only_in_a"),
                                    std::pair(&calls.ranks_only_in_b, "ranks_only_in_b")}) {
    for (const Rank rank : *ranks) {
      json[name].push_back(rank.value);
    }
  }
  for (const SequenceDiff& one : calls.sequences) {
    json["sequences"].push_back(json_of(one));
  }
  if (diff.numbers != nullptr) {
    json["values"] = numbers_json(*diff.numbers);
  }
  if (diff.time != nullptr) {
    json["time"] = time_json(*diff.time);
  }
  if (!diff.memory.empty()) {
    json["memory"] = memory_json(diff.memory);
  }
  // Names of kernels and paths may be any bytes.
  return printable_json(json.dump(2, ' ', false, Json::error_handler_t::replace)) + '\n';
}

}  // namespace traintrace
