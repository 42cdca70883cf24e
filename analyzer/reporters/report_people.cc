// A report as people read it on a terminal: the columns that matter, with units, a bar for the one
// that the rows are ordered by, and of stacks the job's own frames.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/model/code_place.h"
#include "analyzer/reporters/report_table.h"
#include "analyzer/text/printable.h"
#include "analyzer/text/units.h"

namespace traintrace {
namespace {

constexpr size_t kBarColumns = 12;

struct Chosen {
  std::vector<std::string_view> columns;
  std::string_view bar;  // column, drawn beside its own
};

// Of each sort of report; what is not listed is there with --columns=all.
Chosen usual_columns(const ReportTable& table) {
  const std::string_view by = table.by;
  if (by == "rank") {
    return {{"rank", "window_ns", "compute_ns", "exposed_communication_ns", "idle_ns",
             "idle_by_cause_ns", "peak_allocated_bytes"},
            "idle_ns"};
  }
  if (by == "step") {
    return {{"rank", "step", "duration_ns", "compute_ns", "exposed_communication_ns", "idle_ns",
             "idle_by_cause_ns"},
            "duration_ns"};
  }
  if (by == "stream") {
    return {{"rank", "device", "stream", "work_count", "busy_ns", "compute_ns", "communication_ns"},
            "busy_ns"};
  }
  if (by == "call") {
    return {{"call", "count", "failed_count", "open_count", "host_ns", "mean_ns", "max_ns", "bytes",
             "idle_ns"},
            "host_ns"};
  }
  if (by == "range") {
    return {{"range", "rank", "count", "open_count", "host_ns", "mean_ns", "max_ns", "gpu_ns"},
            "host_ns"};
  }
  if (by == "scalar") {
    return {{"place", "rank", "type", "count", "first", "last", "least", "most", "nonfinite_count",
             "first_nonfinite_ns", "curve"},
            ""};
  }
  if (by == "batch") {
    return {{"place", "rank", "count", "changing_count", "batch_bytes", "most_batch_bytes"}, ""};
  }
  if (by == "check") {
    return {{"place", "communicator", "operation", "rank", "side", "count", "nan_count",
             "inf_count", "largest", "first_norm", "last_norm", "most_norm"},
            ""};
  }
  if (by == "value") {
    return {{"place", "rank", "number", "time_ns", "value"}, ""};
  }
  return {{"count", "host_ns", "live_bytes", "growth_bytes_per_step", "idle_ns", "cause", "owner",
           "call", "calls", "stack"},
          std::find(table.columns.begin(), table.columns.end(), "host_ns") == table.columns.end()
              ? "idle_ns"
              : "host_ns"};
}

bool is_text(const ReportCell& cell) {
  return std::holds_alternative<std::string>(cell) ||
         std::holds_alternative<std::vector<std::string>>(cell);
}

bool has_value(const ReportCell& cell) {
  if (const auto* number = std::get_if<int64_t>(&cell)) {
    return *number != 0;
  }
  if (const auto* parts = std::get_if<ReportParts>(&cell)) {
    return std::any_of(parts->begin(), parts->end(),
                       [](const auto& part) { return part.second != 0; });
  }
  if (const auto* list = std::get_if<std::vector<std::string>>(&cell)) {
    return !list->empty();
  }
  return !std::holds_alternative<std::monostate>(cell);
}

// Names of things are columns even where all are 0: rank 0 of a job of one.
bool is_name(std::string_view column) {
  return column == "rank" || column == "device" || column == "stream" || column == "step" ||
         column == "count";
}

std::string number_for_people(std::string_view column, int64_t number) {
  if (column.ends_with("_ns")) {
    return duration_text(number);
  }
  if (column.find("bytes") != column.npos) {
    return (number < 0 ? "-" : "") +
           bytes_text(static_cast<uint64_t>(number < 0 ? -number : number));
  }
  return is_name(column) && column != "count" ? std::to_string(number)
         : number < 0                         ? std::to_string(number)
                                              : count_text(static_cast<uint64_t>(number));
}

// The largest part: "host-bound 4.2 ms".
std::string parts_text(std::string_view column, const ReportParts& parts) {
  const auto most = std::max_element(
      parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == parts.end() || most->second == 0
             ? "-"
             : most->first + " " + number_for_people(column, most->second);
}

std::string cell_for_people(std::string_view column, const ReportCell& cell) {
  if (const auto* number = std::get_if<int64_t>(&cell)) {
    return number_for_people(column, *number);
  }
  if (const auto* decimal = std::get_if<ReportDecimal>(&cell)) {
    return percent_text(static_cast<double>(decimal->ten_thousandths) / 1e4);
  }
  if (const auto* parts = std::get_if<ReportParts>(&cell)) {
    return parts_text(column, *parts);
  }
  if (const auto* text = std::get_if<std::string>(&cell)) {
    return printable(*text);
  }
  if (const auto* list = std::get_if<std::vector<std::string>>(&cell)) {
    constexpr size_t kMost = 2;
    std::string out;
    for (size_t i = 0; i < std::min(list->size(), kMost); ++i) {
      out += (i == 0 ? "" : ", ") + printable((*list)[i]);
    }
    return list->size() > kMost ? fmt::format("{} +{}", out, list->size() - kMost) : out;
  }
  return "-";
}

// "exposed_communication_ns" -> "exposed communication"; bytes say so themselves.
std::string heading(std::string_view column) {
  if (column == "idle_by_cause_ns") {
    return "idle mostly for";
  }
  std::string text(column);
  for (const std::string_view end : {"_ns", "_count", "_bytes"}) {
    if (text.ends_with(end)) {
      text.resize(text.size() - end.size());
    }
  }
  std::replace(text.begin(), text.end(), '_', ' ');
  const size_t bytes = text.find(" bytes per step");
  return bytes == text.npos ? text : text.substr(0, bytes) + " a step";
}

int64_t number_in(const ReportCell& cell) {
  const auto* const number = std::get_if<int64_t>(&cell);
  return number == nullptr ? 0 : std::max<int64_t>(*number, 0);
}

// "train_step at /job/train.py:118" -> /job/train.py
std::string_view file_of_frame(std::string_view frame) {
  const size_t at = frame.rfind(" at ");
  const std::string_view place = at == frame.npos ? "" : frame.substr(at + 4);
  return place.substr(0, place.rfind(':'));
}

// The interpreter, torch and what is below them say little.
std::vector<std::string> folded(const std::vector<std::string>& frames) {
  constexpr size_t kInnermost = 3;
  std::vector<std::string> kept;
  size_t left_out = 0;
  for (const std::string& frame : frames) {
    const std::string_view file = file_of_frame(frame);
    if (!file.empty() && is_user_file(file)) {
      kept.push_back(frame);
    } else {
      ++left_out;
    }
  }
  if (kept.empty()) {
    kept.assign(frames.begin(),
                frames.begin() + static_cast<std::ptrdiff_t>(std::min(frames.size(), kInnermost)));
    left_out = frames.size() - kept.size();
  }
  if (left_out != 0) {
    kept.push_back(
        fmt::format("({} frame{} of libraries: --frames=all)", left_out, left_out == 1 ? "" : "s"));
  }
  return kept;
}

}  // namespace

std::string complaint_about_columns(const ReportTable& table,
                                    const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted) {
    if (name != "all" &&
        std::find(table.columns.begin(), table.columns.end(), name) == table.columns.end()) {
      std::string known;
      for (const std::string& column : table.columns) {
        known += (known.empty() ? "" : ", ") + column;
      }
      return fmt::format("--columns: there is no column {}; there are {}, or all", name, known);
    }
  }
  return "";
}

ReportTable with_columns(const ReportTable& table, const std::vector<std::string>& wanted) {
  if (wanted.empty() || std::find(wanted.begin(), wanted.end(), "all") != wanted.end()) {
    return table;
  }
  ReportTable chosen{table.by, wanted, {}};
  std::vector<size_t> places;
  places.reserve(wanted.size());
  for (const std::string& name : wanted) {
    places.push_back(static_cast<size_t>(
        std::find(table.columns.begin(), table.columns.end(), name) - table.columns.begin()));
  }
  for (const std::vector<ReportCell>& row : table.rows) {
    std::vector<ReportCell>& cells = chosen.rows.emplace_back();
    for (const size_t place : places) {
      cells.push_back(row[place]);
    }
  }
  return chosen;
}

std::string report_for_people(const ReportTable& table, const ReportChoice& choice,
                              const Screen& screen) {
  const Chosen usual = usual_columns(table);
  std::vector<std::string> wanted = choice.columns;
  if (wanted.empty()) {
    for (const std::string_view column : usual.columns) {
      if (std::find(table.columns.begin(), table.columns.end(), column) != table.columns.end()) {
        wanted.emplace_back(column);
      }
    }
  }
  const ReportTable shown = with_columns(table, wanted);
  // Columns without any value tell nothing, unless they were asked for.
  std::vector<size_t> columns;
  for (size_t i = 0; i < shown.columns.size(); ++i) {
    const bool any = std::any_of(shown.rows.begin(), shown.rows.end(),
                                 [&](const auto& row) { return has_value(row[i]); });
    if (any || is_name(shown.columns[i]) || !choice.columns.empty()) {
      columns.push_back(i);
    }
  }
  const bool below = !columns.empty() && shown.columns[columns.back()] == "stack";
  if (below) {
    columns.pop_back();
  }
  std::vector<std::vector<std::string>> lines(1);
  for (const size_t i : columns) {
    lines[0].push_back(heading(shown.columns[i]));
  }
  for (const std::vector<ReportCell>& row : shown.rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const size_t i : columns) {
      line.push_back(cell_for_people(shown.columns[i], row[i]));
    }
  }
  std::string out;
  for (size_t number = 0; number < lines.size(); ++number) {
    std::string text;
    for (size_t at = 0; at < columns.size(); ++at) {
      const size_t column = columns[at];
      size_t width = 0;
      for (const std::vector<std::string>& line : lines) {
        width = std::max(width, width_of(line[at]));
      }
      const bool left = std::any_of(shown.rows.begin(), shown.rows.end(), [&](const auto& row) {
        return is_text(row[column]) || std::holds_alternative<ReportParts>(row[column]);
      });
      const std::string& cell = lines[number][at];
      const std::string blanks(width - width_of(cell), ' ');
      text += (at == 0 ? "" : "  ") + (left ? cell + blanks : blanks + cell);
      if (shown.columns[column] == usual.bar) {
        int64_t most = 1;
        for (const std::vector<ReportCell>& row : shown.rows) {
          most = std::max(most, number_in(row[column]));
        }
        const size_t filled =
            number == 0 ? 0
                        : static_cast<size_t>(std::lround(
                              static_cast<double>(kBarColumns) *
                              static_cast<double>(number_in(shown.rows[number - 1][column])) /
                              static_cast<double>(most)));
        text += "  " + painted(std::string(filled, '#'), Paint::kCyan, screen) +
                std::string(kBarColumns - filled, ' ');
      }
    }
    text = text.substr(0, text.find_last_not_of(' ') + 1);
    out += (number == 0 ? painted(text, Paint::kBold, screen) : text) + '\n';
    if (below && number > 0) {
      const auto* const frames =
          std::get_if<std::vector<std::string>>(&shown.rows[number - 1].back());
      for (const std::string& frame : frames == nullptr   ? std::vector<std::string>()
                                      : choice.all_frames ? *frames
                                                          : folded(*frames)) {
        out += wrapped("    ", printable(frame), 8, screen);
      }
    }
  }
  if (choice.columns.empty() && shown.columns.size() < table.columns.size()) {
    out += painted("more: --columns=all, --format=csv", Paint::kQuiet, screen) + '\n';
  }
  return out;
}

}  // namespace traintrace
