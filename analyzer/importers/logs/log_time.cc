#include "analyzer/importers/logs/log_time.h"

#include <algorithm>
#include <ctime>
#include <iterator>

namespace traintrace {
namespace {

// Takes `count` digits and what follows them from the text; nothing: there are others.
std::optional<int> take_digits(std::string_view& text, size_t count, char after) {
  int value = 0;
  for (size_t i = 0; i < count; ++i) {
    if (i >= text.size() || text[i] < '0' || text[i] > '9') {
      return std::nullopt;
    }
    value = 10 * value + (text[i] - '0');
  }
  const bool is_followed = after == '\0' || (text.size() > count && text[count] == after);
  if (!is_followed) {
    return std::nullopt;
  }
  text.remove_prefix(count + (after == '\0' ? 0 : 1));
  return value;
}

// ".123456" or ",123456": ns
int64_t take_fraction(std::string_view& text) {
  if (text.empty() || (text[0] != '.' && text[0] != ',')) {
    return 0;
  }
  text.remove_prefix(1);
  int64_t ns = 0;
  int64_t unit = 100'000'000;
  for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1)) {
    ns += (text[0] - '0') * unit;
    unit /= 10;
  }
  return ns;
}

// "+05:30", "-0800", "Z": seconds east of Greenwich.
std::optional<int> take_zone(std::string_view& text) {
  constexpr int kMinute = 60;
  constexpr int kHour = 3600;
  if (text.starts_with('Z')) {
    text.remove_prefix(1);
    return 0;
  }
  if (text.empty() || (text[0] != '+' && text[0] != '-')) {
    return std::nullopt;
  }
  const int sign = text[0] == '-' ? -1 : 1;
  text.remove_prefix(1);
  const auto hours = take_digits(text, 2, '\0');
  text.remove_prefix(text.starts_with(':') ? 1 : 0);
  const auto minutes = take_digits(text, 2, '\0');
  return hours && minutes ? std::optional(sign * (*hours * kHour + *minutes * kMinute))
                          : std::nullopt;
}

}  // namespace

std::optional<int64_t> take_iso_time(std::string_view& text) {
  std::tm utc = {};
  const auto year = take_digits(text, 4, '-');
  const auto month = take_digits(text, 2, '-');
  const auto day = take_digits(text, 2, 'T');
  const auto hour = take_digits(text, 2, ':');
  const auto minute = take_digits(text, 2, ':');
  const auto second = take_digits(text, 2, '\0');
  if (!year || !month || !day || !hour || !minute || !second) {
    return std::nullopt;
  }
  constexpr int kFirstYear = 1900;
  utc.tm_year = *year - kFirstYear;
  utc.tm_mon = *month - 1;
  utc.tm_mday = *day;
  utc.tm_hour = *hour;
  utc.tm_min = *minute;
  utc.tm_sec = *second;
  const int64_t fraction = take_fraction(text);
  const auto zone = take_zone(text);
  const std::time_t seconds = timegm(&utc);
  return zone && seconds > *zone && seconds < kMostLogSeconds
             ? std::optional((int64_t{seconds} - *zone) * 1'000'000'000 + fraction)
             : std::nullopt;
}

std::optional<int64_t> take_dmesg_time(std::string_view& text) {
  constexpr std::string_view kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  constexpr size_t kWeekday = 5;  // "[Wed "
  const size_t begin = text.find('[');
  if (begin == text.npos || text.size() < begin + kWeekday + 4) {
    return std::nullopt;
  }
  std::string_view rest = text.substr(begin + kWeekday);
  const auto* const month = std::find(std::begin(kMonths), std::end(kMonths), rest.substr(0, 3));
  rest.remove_prefix(4);
  const bool short_day = rest.starts_with(' ');
  rest.remove_prefix(short_day ? 1 : 0);
  const auto day = take_digits(rest, short_day ? 1 : 2, ' ');
  const auto hour = take_digits(rest, 2, ':');
  const auto minute = take_digits(rest, 2, ':');
  const auto second = take_digits(rest, 2, ' ');
  const auto year = take_digits(rest, 4, ']');
  if (month == std::end(kMonths) || !day || !hour || !minute || !second || !year) {
    return std::nullopt;
  }
  constexpr int kFirstYear = 1900;
  std::tm local = {};
  local.tm_year = *year - kFirstYear;
  local.tm_mon = static_cast<int>(month - std::begin(kMonths));
  local.tm_mday = *day;
  local.tm_hour = *hour;
  local.tm_min = *minute;
  local.tm_sec = *second;
  local.tm_isdst = -1;
  const std::time_t seconds = std::mktime(&local);
  text = rest;
  return seconds > 0 && seconds < kMostLogSeconds ? std::optional(int64_t{seconds} * 1'000'000'000)
                                                  : std::nullopt;
}

}  // namespace traintrace
