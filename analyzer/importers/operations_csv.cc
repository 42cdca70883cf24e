#include "analyzer/importers/operations_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "analyzer/importers/text_file.h"
#include "analyzer/reader/files/input_file.h"

namespace traintrace {
namespace {

constexpr std::array<std::string_view, 6> kNeededColumns = {"rank",      "stage", "step",
                                                            "operation", "start", "end"};
constexpr size_t kMostComplaints = 8;
constexpr int64_t kMostRank = 1 << 20;

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (;;) {
    const size_t comma = line.find(',');
    std::string_view cell = line.substr(0, comma);
    while (!cell.empty() && (cell.front() == ' ' || cell.front() == '"')) {
      cell.remove_prefix(1);
    }
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '"' || cell.back() == '\r')) {
      cell.remove_suffix(1);
    }
    cells.push_back(cell);
    if (comma == line.npos) {
      return cells;
    }
    line.remove_prefix(comma + 1);
  }
}

// Where each of kNeededColumns stands; none: one is missing.
std::optional<std::array<size_t, kNeededColumns.size()>> places_of(std::string_view header) {
  const std::vector<std::string_view> cells = cells_of(header);
  std::array<size_t, kNeededColumns.size()> places{};
  for (size_t i = 0; i < kNeededColumns.size(); ++i) {
    const auto cell = std::find(cells.begin(), cells.end(), kNeededColumns[i]);
    if (cell == cells.end()) {
      return std::nullopt;
    }
    places[i] = static_cast<size_t>(cell - cells.begin());
  }
  return places;
}

template <class Number>
std::optional<Number> exact_number(std::string_view text) {
  Number number{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                    : std::nullopt;
}

// "forward_compute" is "forward-compute".
std::string operation_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    name.push_back(c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return name;
}

class OperationsReader {
 public:
  explicit OperationsReader(const std::string& path) : path_(path) {}

  Result<OperationsFile> read(std::string_view text) {
    const size_t first = std::min(text.find('\n'), text.size());
    const auto places = places_of(text.substr(0, first));
    if (!places) {
      return ReadError{path_, 0,
                       "expected a CSV with the columns rank, stage, step, operation, start, end",
                       true, false};
    }
    uint64_t number = 1;
    for (size_t at = first; at < text.size();) {
      const size_t begin = at + 1;
      at = std::min(text.find('\n', begin), text.size());
      ++number;
      const std::string_view line = text.substr(begin, at - begin);
      if (line.find_first_not_of(" \r") != line.npos && !read_line(cells_of(line), *places)) {
        complain(begin, number);
      }
    }
    constexpr double kNsPerSecond = 1e9;
    for (size_t i = 0; i < file_.operations.size(); ++i) {
      const double scale = seconds_ ? 1 : kNsPerSecond;
      file_.operations[i].start_s = (times_[i].first - times_[0].first) / scale;
      file_.operations[i].end_s = (times_[i].second - times_[0].first) / scale;
    }
    if (file_.operations.empty()) {
      return ReadError{path_, 0, "expected operations: no line has one", true, false};
    }
    return std::move(file_);
  }

 private:
  bool read_line(const std::vector<std::string_view>& cells,
                 const std::array<size_t, kNeededColumns.size()>& places) {
    if (*std::max_element(places.begin(), places.end()) >= cells.size()) {
      return false;
    }
    const auto rank = exact_number<int64_t>(cells[places[0]]);
    const auto stage = exact_number<int64_t>(cells[places[1]]);
    const auto step = exact_number<int64_t>(cells[places[2]]);
    const auto start = exact_number<double>(cells[places[4]]);
    const auto end = exact_number<double>(cells[places[5]]);
    const std::string name = operation_name(cells[places[3]]);
    const bool good = rank && stage && step && start && end && *rank >= 0 && *rank <= kMostRank &&
                      *stage >= 0 && *stage <= kMostRank && *start <= *end && !name.empty() &&
                      *end - *start < 1e18;
    if (!good) {
      return false;
    }
    seconds_ = seconds_ || cells[places[4]].find('.') != std::string_view::npos ||
               cells[places[5]].find('.') != std::string_view::npos;
    file_.operations.push_back(
        {static_cast<int>(*rank), static_cast<int>(*stage), *step, name, 0, 0});
    times_.emplace_back(*start, *end);
    return true;
  }
  void complain(uint64_t offset, uint64_t line) {
    if (file_.errors.size() < kMostComplaints) {
      file_.errors.push_back(
          {path_, offset,
           fmt::format(
               "line {}: expected whole numbers for rank, stage and step, a name, and times "
               "of which the second is not earlier: left out",
               line),
           false, false});
    }
  }

  const std::string& path_;
  OperationsFile file_;
  std::vector<std::pair<double, double>> times_;
  bool seconds_ = false;
};

}  // namespace

bool looks_like_operations_csv(const std::string& path) {
  constexpr size_t kLook = 4096;
  Result<TextFile> file = TextFile::open(path);
  std::string text;
  if (!file || file->read(text, kLook)) {
    return false;
  }
  return places_of(std::string_view(text).substr(0, text.find('\n'))).has_value();
}

Result<OperationsFile> read_operations_csv(const std::string& path) {
  constexpr size_t kPiece = 1 << 20;
  Result<TextFile> file = TextFile::open(path);
  if (!file) {
    return file.error();
  }
  std::string text;
  while (!file->at_end()) {
    if (const auto error = file->read(text, kPiece)) {
      return *error;
    }
  }
  return OperationsReader(path).read(text);
}

}  // namespace traintrace
