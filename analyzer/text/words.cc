#include "analyzer/text/words.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "analyzer/text/printable.h"

namespace traintrace {
namespace {

constexpr size_t kMaxRanks = 65536;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Reads the escape behind a backslash at `i`, leaves `i` on its last character.
char unescape(std::string_view line, size_t& i) {
  const char c = line[++i];
  if (c == 'n') {
    return '\n';
  }
  if (c == 't') {
    return '\t';
  }
  if (c == 'x' && i + 2 < line.size()) {
    const int high = hex_digit(line[i + 1]);
    const int low = hex_digit(line[i + 2]);
    if (high >= 0 && low >= 0) {
      i += 2;
      return static_cast<char>(high * 16 + low);
    }
  }
  return c;
}

// From the opening quote at `i`; leaves `i` behind the closing one.
bool read_quoted(std::string_view line, size_t& i, std::string& word) {
  for (++i; i < line.size(); ++i) {
    if (line[i] == '"') {
      ++i;
      return true;
    }
    if (line[i] == '\\' && i + 1 < line.size()) {
      word += unescape(line, i);
    } else {
      word += line[i];
    }
  }
  return false;
}

template <class T>
std::optional<T> parse_whole(std::string_view text, int base) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> ns_of_unit(std::string_view unit) {
  if (unit.empty() || unit == "s") {
    return 1'000'000'000;
  }
  if (unit == "ms") {
    return 1'000'000;
  }
  if (unit == "us") {
    return 1'000;
  }
  if (unit == "ns") {
    return 1;
  }
  if (unit == "m") {
    return 60'000'000'000;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<std::string>> split_words(std::string_view line) {
  std::vector<std::string> words;
  size_t i = 0;
  while (true) {
    while (i < line.size() && is_blank(line[i])) {
      ++i;
    }
    if (i >= line.size() || line[i] == '#') {
      return words;
    }
    std::string word;
    while (i < line.size() && !is_blank(line[i])) {
      if (line[i] != '"') {
        word += line[i++];
      } else if (!read_quoted(line, i, word)) {
        return std::nullopt;
      }
    }
    words.push_back(std::move(word));
  }
}

std::string quoted(std::string_view text) {
  bool plain = !text.empty() && text[0] != '#';
  for (const char c : text) {
    plain = plain && c > ' ' && c < 127 && c != '"' && c != '\\';
  }
  if (plain) {
    return std::string(text);
  }
  std::string out = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const size_t harmless = harmless_bytes(text, i);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (harmless == 0) {
      out += "\\x";
      out += "0123456789abcdef"[byte / 16];
      out += "0123456789abcdef"[byte % 16];
    } else {
      out.append(text, i, harmless);
      i += harmless - 1;
    }
  }
  return out + '"';
}

std::optional<uint64_t> parse_unsigned(std::string_view text) {
  if (text.starts_with("0x")) {
    return parse_whole<uint64_t>(text.substr(2), 16);
  }
  return parse_whole<uint64_t>(text, 10);
}

std::optional<int64_t> parse_signed(std::string_view text) {
  return parse_whole<int64_t>(text, 10);
}

std::optional<int64_t> parse_duration(std::string_view text) {
  const bool negative = text.starts_with("-");
  if (negative) {
    text.remove_prefix(1);
  }
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, digits);
  const auto unit = ns_of_unit(digits == text.npos ? "" : text.substr(digits));
  const size_t point = number.find('.');
  const auto whole = parse_whole<uint64_t>(number.substr(0, point), 10);
  int64_t ns = 0;
  if (!unit || !whole || __builtin_mul_overflow(*whole, *unit, &ns)) {
    return std::nullopt;
  }
  int64_t scale = *unit;
  for (const char c : point == number.npos ? "" : number.substr(point + 1)) {
    scale /= 10;
    if (c == '.' || __builtin_add_overflow(ns, (c - '0') * scale, &ns)) {
      return std::nullopt;
    }
  }
  return negative ? -ns : ns;
}

std::optional<TimeNs> parse_time(std::string_view text, TimeNs start) {
  if (!text.starts_with("+") && !text.starts_with("-")) {
    return std::nullopt;
  }
  const auto since = parse_duration(text.starts_with("+") ? text.substr(1) : text);
  TimeNs time = 0;
  if (!since || __builtin_add_overflow(start, *since, &time)) {
    return std::nullopt;
  }
  return time == 0 ? 1 : time;
}

void append_unsigned(std::string& out, uint64_t value) {
  char digits[20];
  const auto result = std::to_chars(digits, digits + sizeof digits, value);
  out.append(digits, result.ptr);
}

void append_hex(std::string& out, uint64_t value) {
  char digits[16];
  const auto result = std::to_chars(digits, digits + sizeof digits, value, 16);
  out += "0x";
  out.append(digits, result.ptr);
}

void append_seconds(std::string& out, int64_t ns) {
  const uint64_t magnitude = ns < 0 ? -static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  append_unsigned(out, magnitude / 1'000'000'000);
  char digits[10] = {'.'};
  uint64_t part = magnitude % 1'000'000'000;
  for (int i = 9; i >= 1; --i) {
    digits[i] = static_cast<char>('0' + part % 10);
    part /= 10;
  }
  out.append(digits, sizeof digits);
}

void append_time(std::string& out, TimeNs time, TimeNs start) {
  // Of damaged traces, times may be further apart than fits: what is printed must read back.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  int64_t since = 0;
  if (__builtin_sub_overflow(time, start, &since)) {
    since = time < start ? -kMost : kMost;
  }
  since = std::max(since, -kMost);
  out += since < 0 ? '-' : '+';
  append_seconds(out, since);
}

std::optional<std::vector<int>> parse_ranks(std::string_view text) {
  std::vector<int> ranks;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view range = text.substr(0, comma);
    const size_t dash = range.find('-');
    const auto first = parse_whole<uint16_t>(range.substr(0, dash), 10);
    const auto last =
        dash == range.npos ? first : parse_whole<uint16_t>(range.substr(dash + 1), 10);
    if (!first || !last || *last < *first || ranks.size() + (*last - *first) >= kMaxRanks) {
      return std::nullopt;
    }
    for (int rank = *first; rank <= *last; ++rank) {
      ranks.push_back(rank);
    }
    if (comma == text.npos) {
      return ranks;
    }
    text.remove_prefix(comma + 1);
  }
}

namespace {

// A spreadsheet takes what begins so for a formula, and runs it.
bool is_formula(std::string_view text) {
  constexpr std::string_view kBegin = "=+-@\t\r";
  const bool begins = !text.empty() && kBegin.find(text.front()) != kBegin.npos;
  double number = 0;
  const char* const end = text.data() + text.size();
  const std::string_view digits = text.starts_with('+') ? text.substr(1) : text;
  const auto parsed = std::from_chars(digits.data(), end, number);
  return begins && text != "-" && (parsed.ec != std::errc() || parsed.ptr != end);
}

}  // namespace

std::string csv_field(const std::string& text) {
  std::string clean = (is_formula(text) ? "'" : "") + printable(text);
  if (clean.find_first_of(",\"") == clean.npos) {
    return clean;
  }
  std::string field = "\"";
  for (const char c : clean) {
    field += c == '"' ? "\"\"" : std::string(1, c);
  }
  return field + '"';
}

}  // namespace traintrace
