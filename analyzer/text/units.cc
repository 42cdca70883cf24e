#include "analyzer/text/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

namespace traintrace {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Three figures are enough to compare two sizes at a glance.
std::string three_figures(double value) {
  if (value == std::floor(value) && value < 1e6) {
    return fmt::format("{:.0f}", value);
  }
  return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

// Rounded once: 18.7496 is 18.7, not the 18.8 of 18.75.
std::string in_unit(double value) {
  const double hundredths = std::round(value * 100) / 100;
  return three_figures(hundredths == std::floor(hundredths) ? hundredths : value);
}

}  // namespace

std::string bytes_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) {
    return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
  }
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", three_figures(value), kUnits[unit]);
}

std::string duration_text(int64_t ns) {
  if (ns < 0) {
    return "-" + duration_text(ns == INT64_MIN ? INT64_MAX : -ns);
  }
  const auto value = static_cast<double>(ns);
  if (ns < 1'000) {
    return fmt::format("{} ns", ns);
  }
  if (ns < 1'000'000) {
    return in_unit(value / 1e3) + " us";
  }
  if (ns < 1'000'000'000) {
    return in_unit(value / 1e6) + " ms";
  }
  constexpr int64_t kSecond = 1'000'000'000;
  if (ns < 120 * kSecond) {
    return fmt::format("{:.{}f} s", value / 1e9, ns < 10 * kSecond ? 2 : 1);
  }
  const int64_t seconds = ns / kSecond + (ns % kSecond >= kSecond / 2 ? 1 : 0);
  if (seconds < 7200) {
    return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  }
  return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
}

std::string count_text(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3; at -= 3) {
    digits.insert(at - 3, ",");
  }
  return digits;
}

std::string percent_text(double percent) {
  return fmt::format("{:.{}f} %", percent, percent != 0 && std::abs(percent) < 10 ? 1 : 0);
}

namespace {

// "0.78 of 1234.56 ms": the unit is of both numbers.
bool shares_unit(std::string_view before) {
  constexpr std::string_view kOf = " of ";
  return before.ends_with(kOf) && before.size() > kOf.size() &&
         is_digit(before[before.size() - kOf.size() - 1]);
}

// "1356.7 ms" -> "1.36 s": of a second and more the figures before the point are too many.
std::string with_seconds(std::string text) {
  constexpr std::string_view kMs = " ms";
  constexpr size_t kSecond = 4;  // figures of 1000 ms
  for (size_t at = text.find(kMs); at != std::string::npos; at = text.find(kMs, at + 1)) {
    size_t begin = at;
    while (begin > 0 && (is_digit(text[begin - 1]) || text[begin - 1] == '.')) {
      --begin;
    }
    const std::string_view number = std::string_view(text).substr(begin, at - begin);
    const bool is_word = (begin == 0 || text[begin - 1] == ' ' || text[begin - 1] == '(') &&
                         (at + kMs.size() == text.size() || !std::isalpha(text[at + kMs.size()]));
    double ms = 0;
    if (is_word && number.find('.') != number.npos && number.find('.') >= kSecond &&
        !shares_unit(std::string_view(text).substr(0, begin)) &&
        std::from_chars(number.data(), number.data() + number.size(), ms).ec == std::errc() &&
        ms < 1e12) {
      text.replace(begin, at + kMs.size() - begin, duration_text(std::llround(ms * 1e6)));
      at = begin;
    }
  }
  return text;
}

// "1023 ranks", "16777216 float32": what is counted, and no number that names something.
bool counts_something(std::string_view before, std::string_view rest) {
  constexpr std::string_view kCounted[] = {" ranks", " records", " operations", " collectives",
                                           " times", " float",   " bfloat",     " int",
                                           " uint",  " others"};
  constexpr std::string_view kNamed[] = {"rank ", "ranks ", "step ", "process ", "communicator "};
  return std::any_of(std::begin(kCounted), std::end(kCounted),
                     [&](std::string_view what) { return rest.starts_with(what); }) &&
         std::none_of(std::begin(kNamed), std::end(kNamed),
                      [&](std::string_view name) { return before.ends_with(name); });
}

}  // namespace

std::string for_people(std::string_view sentence) {
  constexpr std::string_view kBytes = " bytes";
  constexpr uint64_t kSmallest = 4096;  // below, all figures may matter
  std::string out;
  size_t at = 0;
  while (at < sentence.size()) {
    const bool begins =
        is_digit(sentence[at]) && (at == 0 || sentence[at - 1] == ' ' || sentence[at - 1] == '(');
    size_t end = at;
    while (begins && end < sentence.size() && is_digit(sentence[end])) {
      ++end;
    }
    uint64_t number = 0;
    const std::string_view rest = sentence.substr(end);
    const bool is_number =
        begins && std::from_chars(&sentence[at], sentence.data() + end, number).ec == std::errc();
    if (is_number && number >= kSmallest && rest.starts_with(kBytes)) {
      out += bytes_text(number);
      at = end + kBytes.size();
    } else if (is_number && counts_something(sentence.substr(0, at), rest)) {
      out += count_text(number);
      at = end;
    } else {
      out += sentence[at++];
    }
  }
  return with_seconds(std::move(out));
}

}  // namespace traintrace
