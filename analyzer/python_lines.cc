#include "analyzer/python_lines.h"

namespace traintrace {
namespace {

// Lines are summed up wide: a forged table must not overflow.
std::optional<int> as_line(int64_t line) {
  constexpr int64_t kLast = 1 << 30;
  if (line < 0 || line > kLast) {
    return std::nullopt;
  }
  return static_cast<int>(line);
}

// Pairs of steps: bytes of code (unsigned), lines (signed).
std::optional<int> line_of_3_9(int64_t line, std::span<const uint8_t> table, int64_t instruction) {
  int64_t end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    end += table[i];
    if (end > instruction) {
      break;
    }
    line += static_cast<int8_t>(table[i + 1]);
  }
  return as_line(line);
}

// Pairs: bytes of code that follow (unsigned), their line relative to the one before (signed);
// -128: none.
std::optional<int> line_of_3_10(int64_t line, std::span<const uint8_t> table, int64_t instruction) {
  constexpr int8_t kNoLine = -128;
  int64_t end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto step = static_cast<int8_t>(table[i + 1]);
    line += step == kNoLine ? 0 : step;
    end += table[i];
    if (instruction < end) {
      return step == kNoLine ? std::nullopt : as_line(line);
    }
  }
  return std::nullopt;
}

// Entries of several bytes; the highest bit is set in the first of them only.
class LocationTable {
 public:
  explicit LocationTable(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  struct Entry {
    int64_t code_bytes;
    int64_t line_step;
    bool has_line;
  };

  std::optional<Entry> next() {
    if (at_ >= bytes_.size() || !starts_entry(bytes_[at_])) {
      return std::nullopt;
    }
    const uint8_t first = bytes_[at_++];
    const int kind = first >> 3 & 15;
    Entry entry{
        .code_bytes = int64_t{2} * ((first & 7) + 1), .line_step = 0, .has_line = kind != kNoLine};
    if (kind == kNoColumns || kind == kLong) {
      entry.line_step = signed_number();
    } else if (kind >= kOneLine && kind < kNoColumns) {
      entry.line_step = kind - kOneLine;
    }
    while (at_ < bytes_.size() && !starts_entry(bytes_[at_])) {
      ++at_;  // columns
    }
    return entry;
  }

 private:
  static constexpr int kOneLine = 10;
  static constexpr int kNoColumns = 13;
  static constexpr int kLong = 14;
  static constexpr int kNoLine = 15;

  static bool starts_entry(uint8_t byte) { return (byte & 0x80) != 0; }

  // Groups of 6 bits, lowest first, bit 6: more follow.  The sign is the lowest bit of all.
  int64_t signed_number() {
    uint64_t number = 0;
    for (int shift = 0; at_ < bytes_.size() && !starts_entry(bytes_[at_]); shift += 6) {
      const uint8_t byte = bytes_[at_++];
      number |= shift < 36 ? static_cast<uint64_t>(byte & 0x3f) << shift : 0;
      if ((byte & 0x40) == 0) {
        break;
      }
    }
    const auto magnitude = static_cast<int64_t>(number >> 1);
    return (number & 1) != 0 ? -magnitude : magnitude;
  }

  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

std::optional<int> line_of_3_11(int64_t line, std::span<const uint8_t> table, int64_t instruction) {
  constexpr int64_t kFar = int64_t{1} << 40;
  LocationTable locations(table);
  int64_t end = 0;
  while (const auto entry = locations.next()) {
    line += entry->line_step;
    end += entry->code_bytes;
    if (line > kFar || line < -kFar) {
      return std::nullopt;
    }
    if (instruction < end) {
      return entry->has_line ? as_line(line) : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<int> python_line(int minor, int first_line, std::span<const uint8_t> table,
                               int instruction) {
  if (minor < 9 || minor > 14) {
    return std::nullopt;
  }
  if (instruction < 0) {
    return as_line(first_line);
  }
  switch (minor) {
    case 9:
      return line_of_3_9(first_line, table, instruction);
    case 10:
      return line_of_3_10(first_line, table, instruction);
    default:
      return line_of_3_11(first_line, table, instruction);
  }
}

}  // namespace traintrace
