#include "analyzer/reporters/tables/report_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace traintrace {
namespace {

struct UsualOf {
  std::string_view by;
  UsualColumns columns;
};

constexpr std::string_view kGains =
    "lost: how long the GPU stood idle for this cause, over the whole recording. gain: how much "
    "sooner the recording would end without the cause, by a replay: more than was lost where the "
    "host could then run ahead, less where the next cause takes its place. Gains do not add up.";

// clang-format off
const UsualOf kUsual[] = {
    {"rank", {{"rank", "window_ns", "compute_ns", "exposed_communication_ns", "idle_ns", "idle_by_cause_ns", "peak_allocated_bytes", "peak_reserved_bytes"}, {"idle_ns"}}},
    {"step", {{"rank", "step", "duration_ns", "compute_ns", "exposed_communication_ns", "idle_ns", "idle_by_cause_ns"}, {"duration_ns"}}},
    {"stream", {{"rank", "device", "stream", "work_count", "busy_ns", "compute_ns", "communication_ns"}, {"busy_ns"}}},
    {"call", {{"call", "count", "failed_count", "open_count", "open_ns", "host_ns", "max_ns", "bytes", "idle_ns", "mean_ns"}, {"host_ns"}}},
    {"range", {{"range", "rank", "count", "open_count", "host_ns", "mean_ns", "max_ns", "gpu_ns"}, {"host_ns"}}},
    {"scalar", {{"place", "rank", "curve", "nonfinite_count", "first_nonfinite_ns", "last", "least", "most", "first", "count", "type"}, {}}},
    {"batch", {{"place", "rank", "count", "changing_count", "batch_bytes", "most_batch_bytes"}, {}}},
    {"check", {{"place", "operation", "rank", "side", "nan_count", "inf_count", "last_norm", "most_norm", "first_norm", "largest", "count", "communicator"}, {}}},
    {"value", {{"place", "rank", "number", "time_ns", "value"}, {}}},
    {"stack", {{"count", "open_ns", "host_ns", "live_bytes", "growth_bytes_per_step", "idle_ns", "cause", "owner", "call", "operator", "calls", "stack"}, {"host_ns", "idle_ns"}}},
    {"kernel", {{"kernel", "work_count", "gpu_ns", "share_percent", "mean_ns", "idle_before_ns"}, {"gpu_ns"}}},
    {"operator", {{"operator", "work_count", "gpu_ns", "share_percent", "idle_caused_ns", "mean_ns"}, {"gpu_ns"}}},
    {"annotation", {{"annotation", "work_count", "gpu_ns", "share_percent", "idle_caused_ns", "mean_ns"}, {"gpu_ns"}}},
    {"module", {{"module", "work_count", "gpu_ns", "share_percent", "idle_caused_ns", "mean_ns"}, {"gpu_ns"}}},
    {"collective", {{"operation", "communicator", "size_bytes", "count", "median_ns", "bus_gb_per_s", "measured"}, {"median_ns"}}},
    {"cause", {{"rank", "cause", "lost_ns", "gain_ns", "step_ns", "step_without_ns"}, {"gain_ns"}, kGains, true}},
    {"slowdown", {{"of", "name", "slowdown", "recorded_ns", "replayed_ns", "ideal_ns"}, {}}},
};
// clang-format on

struct Wording {
  std::string_view end;    // of the column's name
  std::string_view words;  // in its place
};
constexpr Wording kWordings[] = {
    {"_gb_per_s", " GB/s"},
    {"_percent", ""},
    {"_bytes_per_step", " a step"},
    {"launch_count", "launches"},
    {"work_count", "count"},
    {"rank_count", "ranks"},
    {"gap_count", "gaps"},
    {"step_count", "steps"},
    {"_count", ""},
    {"_bytes", ""},
};

struct ValueWords {
  std::string_view column, value, words;
};
constexpr ValueWords kValueWords[] = {{"cause", "none", "(as recorded)"}};

}  // namespace

std::string_view value_for_people(std::string_view column, std::string_view value) {
  const auto* const found = std::find_if(
      std::begin(kValueWords), std::end(kValueWords),
      [&](const ValueWords& each) { return each.column == column && each.value == value; });
  return found == std::end(kValueWords) ? value : found->words;
}

std::string kernel_for_people(std::string_view name) {
  constexpr std::string_view kVoid = "void ";
  constexpr std::string_view kUnnamed = "(anonymous namespace)::";
  name.remove_prefix(name.starts_with(kVoid) ? kVoid.size() : 0);
  std::string text;
  int depth = 0;
  while (!name.empty()) {
    if (name.starts_with(kUnnamed)) {
      name.remove_prefix(kUnnamed.size());
      continue;
    }
    const char c = name.front();
    if (c == '(' && depth == 0 && !text.empty()) {
      break;  // of its parameters
    }
    depth += c == '<' ? 1 : c == '>' ? -1 : 0;
    if (name.starts_with("::")) {  // what it lies in
      while (!text.empty() &&
             (std::isalnum(static_cast<unsigned char>(text.back())) != 0 || text.back() == '_')) {
        text.pop_back();
      }
      name.remove_prefix(2);
      continue;
    }
    text += c;
    name.remove_prefix(1);
  }
  return text;
}

UsualColumns usual_columns(std::string_view by) {
  const auto* const found = std::find_if(std::begin(kUsual), std::end(kUsual),
                                         [&](const UsualOf& usual) { return usual.by == by; });
  return found == std::end(kUsual) ? UsualColumns() : found->columns;
}

std::string column_heading(std::string_view column, const char* unit_of_time) {
  if (column.ends_with("_ns")) {
    const std::string name =
        column == "idle_by_cause_ns" ? "idle mostly for"
        : column == "open_ns"        ? "open for"
        : column == "exposed_communication_ns"
            ? "exposed comm"
            : column_heading(column.substr(0, column.size() - 3), unit_of_time);
    return fmt::format("{}, {}", name, unit_of_time);
  }
  std::string text(column);
  for (const Wording& wording : kWordings) {
    if (text.ends_with(wording.end)) {
      text.replace(text.size() - wording.end.size(), wording.end.size(), wording.words);
      break;
    }
  }
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

}  // namespace traintrace
