// A report as people read it on a terminal: the columns that matter, with units, a bar for the one
// that the rows are ordered by, and of stacks the job's own frames.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "analyzer/model/process/code_place.h"
#include "analyzer/reporters/tables/report_columns.h"
#include "analyzer/reporters/tables/report_json.h"
#include "analyzer/reporters/tables/report_table.h"
#include "analyzer/text/printable.h"
#include "analyzer/text/units.h"

namespace traintrace {
namespace {

constexpr size_t kBarColumns = 12;

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

// One unit for all durations of a column, so that they can be compared by their length.
struct ColumnUnit {
  const char* name = "";
  double ns = 1;
  int decimals = 0;
};

int64_t middle_of(std::vector<int64_t>& durations) {
  std::erase_if(durations, [](int64_t ns) { return ns <= 0; });
  std::sort(durations.begin(), durations.end());
  return durations.empty() ? 0 : durations[durations.size() / 2];
}

// That in which the middle one of them has from one to three figures before the point, unless the
// largest would have more than four.
ColumnUnit unit_of(std::vector<int64_t> durations) {
  constexpr ColumnUnit kUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"h", 3600e9}};
  const auto middle = static_cast<double>(middle_of(durations));
  const double largest = durations.empty() ? 0 : static_cast<double>(durations.back());
  ColumnUnit unit = kUnits[0];
  for (const ColumnUnit& next : kUnits) {
    if (middle >= next.ns || largest >= 1e4 * unit.ns) {
      unit = next;
    }
  }
  return unit;
}

// That of the whole table, unless the column's figures would all be next to nothing in it, and need
// not be compared with others.
ColumnUnit unit_in(const ColumnUnit& of_table, std::vector<int64_t> durations, bool one_unit) {
  constexpr double kLeast = 0.01;
  const auto middle = static_cast<double>(middle_of(durations));
  const bool is_little = middle != 0 && middle < kLeast * of_table.ns;
  ColumnUnit unit = is_little && !one_unit ? unit_of(durations) : of_table;
  const double shown = middle / unit.ns;
  unit.decimals = unit.ns == 1 ? 0 : shown < 1 ? 3 : shown < 10 ? 2 : shown < 1000 ? 1 : 0;
  return unit;
}

std::vector<int64_t> durations_in(const ReportTable& table, size_t column) {
  std::vector<int64_t> all;
  for (const std::vector<ReportCell>& row : table.rows) {
    if (const auto* const number = std::get_if<int64_t>(&row[column])) {
      all.push_back(*number);
    } else if (const auto* const parts = std::get_if<ReportParts>(&row[column])) {
      int64_t most = 0;
      for (const auto& [name, ns] : *parts) {
        most = std::max(most, ns);
      }
      all.push_back(most);
    }
  }
  return all;
}

std::string number_for_people(std::string_view column, int64_t number, const ColumnUnit& unit) {
  if (column.ends_with("_ns")) {
    return number == 0
               ? "0"
               : fmt::format("{:.{}f}", static_cast<double>(number) / unit.ns, unit.decimals);
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
std::string parts_text(std::string_view column, const ReportParts& parts, const ColumnUnit& unit) {
  const auto most = std::max_element(
      parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == parts.end() || most->second == 0
             ? "-"
             : most->first + " " + number_for_people(column, most->second, unit);
}

std::string cell_for_people(std::string_view column, const ReportCell& cell,
                            const ColumnUnit& unit) {
  if (const auto* number = std::get_if<int64_t>(&cell)) {
    return number_for_people(column, *number, unit);
  }
  if (const auto* decimal = std::get_if<ReportDecimal>(&cell)) {
    const double value = static_cast<double>(decimal->ten_thousandths) / 1e4;
    return column.ends_with("_percent") ? percent_text(value) : fmt::format("{:.2f}", value);
  }
  if (const auto* parts = std::get_if<ReportParts>(&cell)) {
    return parts_text(column, *parts, unit);
  }
  if (const auto* text = std::get_if<std::string>(&cell)) {
    return printable(column == "kernel" ? kernel_for_people(*text)
                                        : std::string(value_for_people(column, *text)));
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

std::vector<std::string> frames_of(const ReportCell& stack, const ReportChoice& choice) {
  if (const auto* const place = std::get_if<std::string>(&stack)) {
    return {*place};
  }
  const auto* const frames = std::get_if<std::vector<std::string>>(&stack);
  return frames == nullptr   ? std::vector<std::string>()
         : choice.all_frames ? *frames
                             : folded(*frames);
}

// No row is longer than the terminal is wide: the middle of the longest cells gives way, but in
// those columns that are a picture (`whole`).  Returns whether that was enough.
bool fit(std::vector<std::vector<std::string>>& lines, const std::vector<bool>& whole,
         size_t besides, const Screen& screen) {
  constexpr size_t kLeast = 24;
  constexpr std::string_view kGap = "..";
  const size_t columns = lines.front().size();
  std::vector<size_t> widths(columns, 0);
  size_t total = besides + (columns == 0 ? 0 : 2 * (columns - 1));
  for (size_t i = 0; i < columns; ++i) {
    for (const std::vector<std::string>& line : lines) {
      widths[i] = std::max(widths[i], width_of(line[i]));
    }
    total += widths[i];
  }
  const auto spare = [&](size_t i) { return whole[i] ? 0 : widths[i]; };
  while (screen.columns > 0 && total > screen.columns && columns > 0) {
    size_t widest = 0;
    for (size_t i = 1; i < columns; ++i) {
      widest = spare(i) > spare(widest) ? i : widest;
    }
    if (spare(widest) <= kLeast) {
      break;
    }
    --widths[widest];
    --total;
  }
  for (std::vector<std::string>& line : lines) {
    for (size_t i = 0; i < columns; ++i) {
      std::string& cell = line[i];
      if (width_of(cell) > widths[i] && cell.size() == width_of(cell)) {
        const size_t kept = widths[i] - kGap.size();
        cell = cell.substr(0, kept - kept / 2) + std::string(kGap) +
               cell.substr(cell.size() - kept / 2);
      }
    }
  }
  return screen.columns == 0 || total <= screen.columns;
}

struct Laid {
  std::vector<std::vector<std::string>> lines;  // the headings, then a line for each row
  std::vector<size_t> columns;
  bool bar = true;
};

Laid lay_out(const ReportTable& table, std::vector<size_t> columns) {
  Laid laid{std::vector<std::vector<std::string>>(1), std::move(columns), true};
  std::vector<int64_t> durations;
  for (const size_t i : laid.columns) {
    const std::vector<int64_t> own =
        table.columns[i].ends_with("_ns") ? durations_in(table, i) : std::vector<int64_t>();
    durations.insert(durations.end(), own.begin(), own.end());
  }
  const bool one_unit = usual_columns(table.by).one_unit;
  std::vector<ColumnUnit> units;
  for (const size_t i : laid.columns) {
    units.push_back(unit_in(unit_of(durations), durations_in(table, i), one_unit));
    laid.lines[0].push_back(column_heading(table.columns[i], units.back().name));
  }
  for (const std::vector<ReportCell>& row : table.rows) {
    std::vector<std::string>& line = laid.lines.emplace_back();
    for (size_t at = 0; at < laid.columns.size(); ++at) {
      const size_t i = laid.columns[at];
      line.push_back(cell_for_people(table.columns[i], row[i], units[at]));
    }
  }
  return laid;
}

// Where shorter cells are not enough, the bar gives way, then the last columns, unless they were
// asked for.
Laid fitting(const ReportTable& table, std::vector<size_t> columns, std::string_view bar,
             bool asked_for, const Screen& screen) {
  constexpr size_t kFewest = 2;
  for (bool with_bar = true;; with_bar = false) {
    Laid laid = lay_out(table, columns);
    laid.bar = with_bar && std::any_of(columns.begin(), columns.end(),
                                       [&](size_t column) { return table.columns[column] == bar; });
    std::vector<bool> whole;
    whole.reserve(columns.size());
    for (const size_t column : columns) {
      whole.push_back(table.columns[column] == "curve");
    }
    const bool fits = fit(laid.lines, whole, laid.bar ? kBarColumns + 2 : 0, screen);
    if (fits || (!laid.bar && (asked_for || columns.size() <= kFewest))) {
      return laid;
    }
    if (!laid.bar) {
      columns.pop_back();
    }
  }
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

std::string report_page_json(const ReportTable& table, const ReportChoice& choice) {
  constexpr size_t kMostRows = 3000;  // a page is looked at
  const UsualColumns usual = usual_columns(table.by);
  nlohmann::ordered_json json = {{"by", table.by}, {"columns", table.columns}};
  json["usual"] = nlohmann::ordered_json::array();
  for (const std::string_view column : usual.columns) {
    json["usual"].push_back(column);
  }
  json["bars"] = nlohmann::ordered_json::array();
  for (const std::string_view column : usual.bars) {
    json["bars"].push_back(column);
  }
  json["left_out"] = table.rows.size() - std::min(table.rows.size(), kMostRows);
  json["rows"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < std::min(table.rows.size(), kMostRows); ++i) {
    nlohmann::ordered_json row = nlohmann::ordered_json::array();
    for (size_t column = 0; column < table.rows[i].size(); ++column) {
      ReportCell cell = table.rows[i][column];
      if (auto* const text = std::get_if<std::string>(&cell)) {
        *text = value_for_people(table.columns[column], *text);
      }
      const auto* const parts = std::get_if<ReportParts>(&cell);
      ReportParts known;
      for (const auto& part : parts == nullptr ? ReportParts() : *parts) {
        if (part.second != 0) {
          known.push_back(part);
        }
      }
      const bool is_stack = std::holds_alternative<std::vector<std::string>>(cell);
      row.push_back(parts != nullptr ? report_cell_json(known)
                    : is_stack       ? nlohmann::ordered_json(frames_of(cell, choice))
                                     : report_cell_json(cell));
    }
    json["rows"].push_back(std::move(row));
  }
  return printable_json(
      json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

std::string report_for_people(const ReportTable& table, const ReportChoice& choice,
                              const Screen& screen) {
  const UsualColumns usual = usual_columns(table.by);
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
  constexpr size_t kMostColumns = 6;  // that are chosen without being asked for
  const bool has_stack = !columns.empty() && shown.columns[columns.back()] == "stack";
  while (choice.columns.empty() && columns.size() > kMostColumns + (has_stack ? 1 : 0)) {
    columns.erase(columns.end() - (has_stack ? 2 : 1));
  }
  const bool below = !columns.empty() && shown.columns[columns.back()] == "stack";
  if (below) {
    columns.pop_back();
  }
  const bool tells = std::any_of(columns.begin(), columns.end(),
                                 [&](size_t i) { return !is_name(shown.columns[i]); });
  if (choice.columns.empty() && (shown.rows.empty() || !tells)) {
    return shown.rows.empty()
               ? "nothing of this kind was recorded\n"
               : fmt::format("of {} rows no figure is known\n", count_text(shown.rows.size()));
  }
  const auto bar = std::find_if(usual.bars.begin(), usual.bars.end(), [&](std::string_view name) {
    return std::find(table.columns.begin(), table.columns.end(), name) != table.columns.end();
  });
  const std::string_view bar_of = bar == usual.bars.end() ? std::string_view() : *bar;
  const Laid laid = fitting(shown, columns, bar_of, !choice.columns.empty(), screen);
  const std::vector<std::vector<std::string>>& lines = laid.lines;
  columns = laid.columns;
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
      if (laid.bar && shown.columns[column] == bar_of) {
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
      for (const std::string& frame : frames_of(shown.rows[number - 1].back(), choice)) {
        out += wrapped("    ", printable(frame), 8, screen);
      }
    }
  }
  if (choice.columns.empty() && shown.columns.size() < table.columns.size()) {
    out += usual.note.empty() ? "" : wrapped("", usual.note, 0, screen);
    out += painted("more: --columns=all, --format=csv", Paint::kQuiet, screen) + '\n';
  }
  return out;
}

}  // namespace traintrace
