// The forms of a report: aligned text, JSON, CSV.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "analyzer/reporters/tables/report_json.h"
#include "analyzer/reporters/tables/report_table.h"
#include "analyzer/text/joined.h"
#include "analyzer/text/printable.h"
#include "analyzer/text/words.h"

namespace traintrace {
namespace {

bool is_list(const ReportCell& cell) {
  return std::holds_alternative<std::vector<std::string>>(cell);
}

std::string decimal_text(ReportDecimal decimal) {
  constexpr int64_t kWhole = 10'000;
  const std::string part = std::to_string(decimal.ten_thousandths % kWhole + kWhole).substr(1);
  return std::to_string(decimal.ten_thousandths / kWhole) + '.' + part;
}

std::string parts_text(const ReportParts& parts, const std::string& between) {
  std::vector<std::string> texts;
  for (const auto& [name, number] : parts) {
    if (number != 0) {
      texts.push_back(name + '=' + std::to_string(number));
    }
  }
  return texts.empty() ? "-" : joined(texts, between);
}

std::string cell_text(const ReportCell& cell, const std::string& between) {
  if (const auto* number = std::get_if<int64_t>(&cell)) {
    return std::to_string(*number);
  }
  if (const auto* decimal = std::get_if<ReportDecimal>(&cell)) {
    return decimal_text(*decimal);
  }
  if (const auto* text = std::get_if<std::string>(&cell)) {
    return *text;
  }
  if (const auto* parts = std::get_if<ReportParts>(&cell)) {
    return parts_text(*parts, between);
  }
  return is_list(cell) ? joined(std::get<std::vector<std::string>>(cell), between) : "-";
}

}  // namespace

nlohmann::ordered_json report_cell_json(const ReportCell& cell) {
  if (const auto* number = std::get_if<int64_t>(&cell)) {
    return *number;
  }
  if (const auto* decimal = std::get_if<ReportDecimal>(&cell)) {
    return static_cast<double>(decimal->ten_thousandths) / 1e4;
  }
  if (const auto* text = std::get_if<std::string>(&cell)) {
    return *text;
  }
  if (const auto* parts = std::get_if<ReportParts>(&cell)) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const auto& [name, number] : *parts) {
      object[name] = number;
    }
    return object;
  }
  if (is_list(cell)) {
    return std::get<std::vector<std::string>>(cell);
  }
  return nullptr;
}

namespace {

std::string padded(const std::string& text, size_t width, bool right) {
  const std::string blanks(width > text.size() ? width - text.size() : 0, ' ');
  return right ? blanks + text : text + blanks;
}

// The last column is as long as it is; a list there gets a line of its own for each part.
std::string text_line(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                      const std::vector<bool>& right) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    line += (i == 0 ? "" : "  ") + padded(cells[i], widths[i], right[i]);
  }
  return line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
}

}  // namespace

std::string report_text(const ReportTable& table) {
  const size_t columns = table.columns.size();
  std::vector<size_t> widths(columns);
  std::vector<bool> numbers(columns);
  std::vector<std::vector<std::string>> lines = {table.columns};
  for (const std::vector<ReportCell>& row : table.rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (size_t i = 0; i < columns; ++i) {
      const bool below = is_list(row[i]) && i + 1 == columns;
      line.push_back(below ? "" : printable(cell_text(row[i], ",")));
      numbers[i] = numbers[i] || std::holds_alternative<int64_t>(row[i]) ||
                   std::holds_alternative<ReportDecimal>(row[i]);
    }
  }
  for (const std::vector<std::string>& line : lines) {
    for (size_t i = 0; i < columns; ++i) {
      widths[i] = std::max(widths[i], line[i].size());
    }
  }
  std::string text = text_line(lines[0], widths, numbers);
  for (size_t i = 0; i < table.rows.size(); ++i) {
    text += text_line(lines[i + 1], widths, numbers);
    if (is_list(table.rows[i].back())) {
      for (const std::string& part : std::get<std::vector<std::string>>(table.rows[i].back())) {
        text += "    " + printable(part) + '\n';
      }
    }
  }
  return text;
}

std::string report_json(const ReportTable& table) {
  nlohmann::ordered_json document = {{"schema", "traintrace.report/1"}, {"by", table.by}};
  nlohmann::ordered_json& rows = document["rows"] = nlohmann::ordered_json::array();
  for (const std::vector<ReportCell>& row : table.rows) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (size_t i = 0; i < row.size(); ++i) {
      object[table.columns[i]] = report_cell_json(row[i]);
    }
    rows.push_back(std::move(object));
  }
  // Paths and names may be any bytes.
  return printable_json(
             document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) +
         '\n';
}

std::string report_csv(const ReportTable& table) {
  std::string text = joined(table.columns, ",") + '\n';
  for (const std::vector<ReportCell>& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool nothing = std::holds_alternative<std::monostate>(row[i]);
      text += (i == 0 ? "" : ",") + (nothing ? "" : csv_field(cell_text(row[i], ";")));
    }
    text += '\n';
  }
  return text;
}

}  // namespace traintrace
