#include "analyzer/detectors/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "analyzer/text/embedded.h"

namespace traintrace {
namespace {

#include "findings_text.inc"

constexpr std::string_view kItem = "- ";

// Reads rows of this form; sections may be left out, their order is fixed:
//
//   ## CODE
//
//   **error**: one line                  (or **error, not built yet**:)
//
//   paragraphs
//
//   **Usual causes**                     then **Confirm**, **Fix**: lists
//   **Example**                          indented by four blanks
//   **Values**                           - `key`: meaning
//   **Related**                          - `code`
class RowParser {
 public:
  RowParser(std::string_view file, Problems& problems) : file_(file), problems_(problems) {}

  void take(std::string_view line) {
    ++number_;
    if (line.starts_with("## ")) {
      begin_row(line.substr(3));
    } else if (rows_.empty()) {
      return;  // the head of the file
    } else if (line.empty()) {
      open_ = false;
      blank_lines_ += 1;
    } else if (rows_.back().meaning.empty()) {
      take_meaning(line);
    } else if (line.starts_with("**")) {
      begin_section(line);
    } else if (section_ == Section::kExample) {
      take_example(line);
    } else {
      take_text(line);
    }
    blank_lines_ = line.empty() ? blank_lines_ : 0;
  }

  std::vector<CatalogueRow> finish() {
    for (CatalogueRow& row : rows_) {
      take_values(row);
      for (std::string& code : row.related) {
        code = unquoted(code);
      }
    }
    return std::move(rows_);
  }

 private:
  enum class Section : size_t {
    kExplanation,
    kCauses,
    kConfirm,
    kFix,
    kExample,
    kValues,
    kRelated
  };

  void complain(std::string_view what) {
    problems_.push_back(fmt::format("{}:{}: {}", file_, number_, what));
  }

  void begin_row(std::string_view code) {
    rows_.emplace_back().code = code;
    value_lines_.emplace_back();
    section_ = Section::kExplanation;
    open_ = false;
  }

  void take_meaning(std::string_view line) {
    CatalogueRow& row = rows_.back();
    const size_t end = line.find("**: ");
    if (!line.starts_with("**") || end == std::string_view::npos) {
      complain("expected **SEVERITY**: and what it means, in one line");
      row.meaning = "?";
      return;
    }
    std::string_view severity = line.substr(2, end - 2);
    constexpr std::string_view kNotBuilt = ", not built yet";
    if (severity.ends_with(kNotBuilt)) {
      row.built = false;
      severity.remove_suffix(kNotBuilt.size());
    }
    const auto name = std::find(std::begin(kSeverityNames), std::end(kSeverityNames), severity);
    if (name == std::end(kSeverityNames)) {
      complain("expected error, warning or info");
    } else {
      row.severity = static_cast<Severity>(name - std::begin(kSeverityNames));
    }
    row.meaning = line.substr(end + 4);
  }

  void begin_section(std::string_view line) {
    constexpr std::string_view kNames[] = {"",           "**Usual causes**", "**Confirm**",
                                           "**Fix**",    "**Example**",      "**Values**",
                                           "**Related**"};
    const auto name = std::find(std::begin(kNames), std::end(kNames), line);
    const auto section = static_cast<Section>(name - std::begin(kNames));
    if (name == std::end(kNames)) {
      complain(fmt::format("{} is not a section", line));
    } else if (section <= section_) {
      complain(fmt::format("{} is out of order", line));
    } else {
      section_ = section;
      open_ = false;
    }
  }

  // A blank line within an example is part of it.
  void take_example(std::string_view line) {
    Lines& example = rows_.back().example;
    if (!line.starts_with("    ")) {
      complain("expected a line of an example, indented by four blanks");
      return;
    }
    if (!example.empty() && blank_lines_ > 0) {
      example.emplace_back();
    }
    example.emplace_back(line.substr(4));
  }

  void take_text(std::string_view line) {
    Lines& lines = lines_of_section();
    const bool list = section_ != Section::kExplanation;
    if (list && line.starts_with(kItem)) {
      lines.emplace_back(line.substr(kItem.size()));
    } else if (open_ && (!list || line.starts_with("  "))) {
      lines.back() += ' ';
      lines.back() += list ? line.substr(2) : line;
    } else if (list) {
      complain("expected an item of a list, or its next line indented by two blanks");
      return;
    } else {
      lines.emplace_back(line);
    }
    open_ = true;
  }

  Lines& lines_of_section() {
    CatalogueRow& row = rows_.back();
    switch (section_) {
      case Section::kExplanation:
        return row.explanation;
      case Section::kCauses:
        return row.causes;
      case Section::kConfirm:
        return row.confirm;
      case Section::kFix:
        return row.fix;
      case Section::kExample:
        return row.example;
      case Section::kValues:
        return value_lines_.back();
      case Section::kRelated:
        break;
    }
    return row.related;
  }

  void take_values(CatalogueRow& row) {
    for (const std::string& line : value_lines_[static_cast<size_t>(&row - rows_.data())]) {
      const size_t end = line.find("`: ");
      if (!line.starts_with('`') || end == std::string::npos) {
        complain(fmt::format("{}: expected `key`: meaning, not {}", row.code, line));
      } else {
        row.values.push_back({line.substr(1, end - 1), line.substr(end + 3)});
      }
    }
  }

  static std::string unquoted(const std::string& code) {
    return code.size() > 2 && code.front() == '`' && code.back() == '`'
               ? code.substr(1, code.size() - 2)
               : code;
  }

  std::string_view file_;
  Problems& problems_;
  size_t number_ = 0;
  size_t blank_lines_ = 0;
  Section section_ = Section::kExplanation;
  bool open_ = false;  // the last paragraph or item may go on
  std::vector<CatalogueRow> rows_;
  std::vector<Lines> value_lines_;
};

struct Catalogue {
  std::vector<CatalogueRow> rows;
  Problems problems;

  Catalogue() {
    for (const EmbeddedFile& file : embedded_files(kEmbedded)) {
      auto found = parse_catalogue(file.name, file.text, problems);
      std::move(found.begin(), found.end(), std::back_inserter(rows));
    }
  }
};

const Catalogue& built_in() {
  static const Catalogue& catalogue = *new Catalogue;
  return catalogue;
}

}  // namespace

std::vector<CatalogueRow> parse_catalogue(std::string_view file, std::string_view text,
                                          Problems& problems) {
  RowParser parser(file, problems);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    parser.take(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parser.finish();
}

std::span<const CatalogueRow> catalogue() {
  return built_in().rows;
}

const CatalogueRow* catalogue_row(std::string_view code) {
  const std::vector<CatalogueRow>& rows = built_in().rows;
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const CatalogueRow& other) { return other.code == code; });
  return row == rows.end() ? nullptr : &*row;
}

const Problems& catalogue_problems() {
  return built_in().problems;
}

}  // namespace traintrace
