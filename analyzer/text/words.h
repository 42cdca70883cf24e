// The words of the text form (docs/dump.md): splitting a line, quoting, numbers, times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// Words of a line with quotes and escapes resolved; empty for blank lines and comments.  No value:
// a quote is not closed.
std::optional<std::vector<std::string>> split_words(std::string_view line);

// As a word: quoted if it has to be.
std::string quoted(std::string_view text);
// As a field of CSV (RFC 4180): the same, in UTF-8 and on one line.  What a spreadsheet would take
// for a formula gets an apostrophe before it; numbers stay numbers.
std::string csv_field(const std::string& text);

// Decimal, or hexadecimal with 0x.
std::optional<uint64_t> parse_unsigned(std::string_view text);
std::optional<int64_t> parse_signed(std::string_view text);

// "12.5", "50ms", "-3us": ns.  Seconds where no unit is given.
std::optional<int64_t> parse_duration(std::string_view text);
// "+12.5" since `start`.  Never 0, which means not known.
std::optional<TimeNs> parse_time(std::string_view text, TimeNs start);

void append_unsigned(std::string& out, uint64_t value);
void append_hex(std::string& out, uint64_t value);
void append_seconds(std::string& out, int64_t ns);              // 12.500000000
void append_time(std::string& out, TimeNs time, TimeNs start);  // +12.500000000

// "0-3,7".  At most 65536 of them.
std::optional<std::vector<int>> parse_ranks(std::string_view text);

}  // namespace traintrace
