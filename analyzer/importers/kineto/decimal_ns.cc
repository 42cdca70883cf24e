#include "analyzer/importers/kineto/decimal_ns.h"

#include <charconv>

namespace traintrace {
namespace {

constexpr int64_t kMostNs = 2'000'000'000'000'000'000;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

std::optional<int64_t> ns_of_microseconds(std::string_view text) {
  const bool negative = text.starts_with('-');
  text.remove_prefix(negative ? 1 : 0);
  const size_t e = text.find_first_of("eE");
  int exponent = 0;
  if (e != text.npos) {
    std::string_view power = text.substr(e + 1);
    power.remove_prefix(power.starts_with('+') ? 1 : 0);
    const auto [end, error] = std::from_chars(power.data(), power.data() + power.size(), exponent);
    if (error != std::errc() || end != power.data() + power.size() || exponent < -30 ||
        exponent > 30) {
      return std::nullopt;
    }
    text = text.substr(0, e);
  }
  const size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  const std::string_view part = point == text.npos ? std::string_view() : text.substr(point + 1);
  if (whole.empty()) {
    return std::nullopt;
  }
  // Digits up to the one that stands for a ns.
  const int64_t digits = static_cast<int64_t>(whole.size()) + 3 + exponent;
  int64_t ns = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(whole.size() + part.size()) || i < digits; ++i) {
    const auto at = static_cast<size_t>(i);
    const char c = at < whole.size()                 ? whole[at]
                   : at - whole.size() < part.size() ? part[at - whole.size()]
                                                     : '0';
    if (!is_digit(c)) {
      return std::nullopt;
    }
    if (i < digits) {
      if (ns > kMostNs / 10) {
        return std::nullopt;
      }
      ns = ns * 10 + (c - '0');
    }
  }
  return negative ? -ns : ns;
}

}  // namespace traintrace
