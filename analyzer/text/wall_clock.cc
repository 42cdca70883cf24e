#include "analyzer/text/wall_clock.h"

#include <fmt/format.h>

#include <charconv>
#include <ctime>

namespace traintrace {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

std::tm parts_of(int64_t epoch_ns) {
  const std::time_t seconds = epoch_ns / kSecond;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return parts;
}

size_t digits_at(std::string_view text, size_t at) {
  const size_t end = text.find_first_not_of("0123456789", at);
  return (end == text.npos ? text.size() : end) - at;
}

// The length of "+1.755 s" at the front, as moments of a run are written; 0: it is something else.
size_t moment_length(std::string_view text) {
  const size_t whole = digits_at(text, 1);
  const size_t point = 1 + whole;
  const size_t end = point + 4;
  const bool is_moment = whole > 0 && whole < 10 && text.substr(point, 1) == "." &&
                         digits_at(text, point + 1) == 3 && text.substr(end, 2) == " s";
  const bool ends = end + 2 >= text.size() || text[end + 2] < 'a' || text[end + 2] > 'z';
  return is_moment && ends ? end + 2 : 0;
}

int64_t nanoseconds_of(std::string_view moment) {
  const size_t point = moment.find('.');
  int64_t seconds = 0;
  int64_t milliseconds = 0;
  std::from_chars(&moment[1], &moment[point], seconds);
  std::from_chars(&moment[point + 1], &moment[point + 4], milliseconds);
  return seconds * kSecond + milliseconds * 1'000'000;
}

}  // namespace

bool is_wall_clock(int64_t epoch_ns) {
  constexpr int64_t kYear2001 = 1'000'000'000 * kSecond;
  constexpr int64_t kYear2200 = 7'258'000'000 * kSecond;
  return epoch_ns >= kYear2001 && epoch_ns < kYear2200;
}

std::string utc_text(int64_t epoch_ns) {
  const std::tm parts = parts_of(epoch_ns);
  return fmt::format("{:02}:{:02}:{:02}.{:03} UTC", parts.tm_hour, parts.tm_min, parts.tm_sec,
                     epoch_ns / 1'000'000 % 1000);
}

std::string date_text(int64_t epoch_ns) {
  const std::tm parts = parts_of(epoch_ns);
  return fmt::format("{}-{:02}-{:02} {:02}:{:02}:{:02} UTC", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string with_wall_clock(std::string_view sentence, int64_t start) {
  std::string out;
  size_t done = 0;
  for (size_t at = sentence.find('+'); at != sentence.npos && is_wall_clock(start);
       at = sentence.find('+', at + 1)) {
    const size_t length = moment_length(sentence.substr(at));
    const int64_t time = length == 0 ? 0 : start + nanoseconds_of(sentence.substr(at, length));
    if (length != 0 && (at == 0 || sentence[at - 1] == ' ') && is_wall_clock(time)) {
      out += sentence.substr(done, at + length - done);
      out += fmt::format(" ({})", utc_text(time));
      done = at + length;
    }
  }
  return out.append(sentence.substr(done));
}

}  // namespace traintrace
