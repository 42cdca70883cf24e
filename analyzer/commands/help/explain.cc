#include "analyzer/commands/help/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "analyzer/text/screen.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// Of a narrower terminal its own.
size_t line_width() {
  constexpr size_t kWidest = 92;
  constexpr size_t kNarrowest = 50;
  const size_t columns = stdout_screen().columns;
  return columns == 0 ? kWidest : std::clamp(columns, kNarrowest, kWidest);
}

// `first` before the first line, as many blanks before the others.
std::string wrapped(std::string_view text, std::string_view first) {
  const size_t widest = line_width();
  std::string result(first);
  size_t column = first.size();
  bool empty = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (!empty && column + 1 + end > widest) {
      result += '\n' + std::string(first.size(), ' ');
      column = first.size();
      empty = true;
    }
    result += empty ? "" : " ";
    result += text.substr(0, end);
    column += end + (empty ? 0 : 1);
    empty = false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result + '\n';
}

std::string paragraphs(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += (text.empty() ? "" : "\n") + wrapped(line, "  ");
  }
  return text;
}

std::string items(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += wrapped(line, "  - ");
  }
  return text;
}

std::string example_text(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line.empty() ? "\n" : "    " + line + '\n';
  }
  return text;
}

std::string values_text(const std::vector<ValueRow>& values) {
  std::string text;
  for (const ValueRow& value : values) {
    text += wrapped(value.meaning, fmt::format("  {:<20} ", value.key));
  }
  return text;
}

// Those that the text names.
std::string numbers_text(const CatalogueRow& row) {
  std::string text;
  for (const Threshold& threshold : thresholds()) {
    const std::string quoted = '`' + name_of(threshold) + '`';
    if (std::any_of(row.explanation.begin(), row.explanation.end(),
                    [&](const std::string& line) { return line.find(quoted) != line.npos; })) {
      text += wrapped(fmt::format("{}: {}", value_text(threshold), threshold.why),
                      fmt::format("  {:<20} ", name_of(threshold)));
    }
  }
  return text;
}

std::string related_text(const Lines& codes) {
  std::string text;
  for (const std::string& code : codes) {
    const CatalogueRow* const row = catalogue_row(code);
    text += wrapped(row == nullptr ? "" : row->meaning, fmt::format("  {:<38} ", code));
  }
  return text;
}

std::string section(std::string_view title, const std::string& text) {
  return text.empty() ? "" : fmt::format("\n{}\n{}", title, text);
}

// At the beginning of a word: oom is in memory.capacity-oom, and not in room.
bool holds(std::string_view text, std::string_view word) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  const auto same = [&](char a, char b) { return lower(a) == lower(b); };
  for (auto at = text.begin();; ++at) {
    at = std::search(at, text.end(), word.begin(), word.end(), same);
    if (at == text.end()) {
      return false;
    }
    const char before = at == text.begin() ? ' ' : lower(*(at - 1));
    if (before < 'a' || before > 'z') {
      return true;
    }
  }
}

template <class Texts>
bool all_in(const Lines& words, const Texts& texts) {
  return std::all_of(words.begin(), words.end(), [&](const std::string& word) {
    return std::any_of(std::begin(texts), std::end(texts),
                       [&](std::string_view text) { return holds(text, word); });
  });
}

Lines all_text(const CatalogueRow& row) {
  Lines all = {row.code, row.meaning};
  for (const Lines* lines : {&row.explanation, &row.causes, &row.confirm, &row.fix}) {
    all.insert(all.end(), lines->begin(), lines->end());
  }
  return all;
}

}  // namespace

std::string explain(const CatalogueRow& row) {
  std::string text = fmt::format("{} ({})\n", row.code, name_of(row.severity));
  text += wrapped(row.meaning, "");
  if (!row.built) {
    text += "not built yet: no command reports it\n";
  }
  return text + section("When it is reported", paragraphs(row.explanation)) +
         section("Usual causes", items(row.causes)) +
         section("How to confirm", items(row.confirm)) + section("How to fix", items(row.fix)) +
         section("Example", example_text(row.example)) +
         section("Values in --format=json", values_text(row.values)) +
         section("Numbers that decide", numbers_text(row)) +
         section("Related", related_text(row.related));
}

std::vector<const CatalogueRow*> find_rows(const Lines& words) {
  std::vector<const CatalogueRow*> rows;
  std::vector<const CatalogueRow*> further;
  for (const CatalogueRow& row : catalogue()) {
    if (all_in(words, std::vector<std::string_view>{row.code, row.meaning})) {
      rows.push_back(&row);
    } else if (all_in(words, all_text(row))) {
      further.push_back(&row);
    }
  }
  rows.insert(rows.end(), further.begin(), further.end());
  return rows;
}

std::string thresholds_text() {
  std::string text;
  std::string_view area;
  for (const Threshold& threshold : thresholds()) {
    if (threshold.area != area) {
      text += fmt::format("{}{}\n", text.empty() ? "" : "\n", threshold.area);
      area = threshold.area;
    }
    text += wrapped(threshold.why,
                    fmt::format("  {:<26} {:>10}  ", name_of(threshold), value_text(threshold)));
  }
  return text;
}

}  // namespace traintrace
