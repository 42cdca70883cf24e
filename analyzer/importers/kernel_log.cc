#include <fmt/format.h>

#include <charconv>
#include <ctime>
#include <map>

#include "analyzer/importers/gpu_logs.h"
#include "analyzer/telemetry/telemetry_line.h"

namespace traintrace {
namespace {

constexpr std::string_view kXidMark = "NVRM: Xid (PCI:";

struct XidFound {
  int64_t time = 0;
  std::string host;  // empty: the line does not say
  std::string pci;
  int64_t xid = 0;
};

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

// "2026-11-26T05:10:00,123456+00:00" from the beginning of the text.
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

// `expected`: what should be there, where it is not.
std::optional<XidFound> parse_xid_line(std::string_view line, std::string_view& expected) {
  XidFound found;
  const size_t mark = line.find(kXidMark);
  std::string_view rest = line.substr(mark + kXidMark.size());
  std::string_view before = line.substr(0, mark);
  expected =
      "a time such as 2026-11-26T05:10:00+00:00: dmesg --time-format=iso, journalctl -k -o "
      "short-iso";
  const std::optional<int64_t> time = take_iso_time(before);
  if (!time) {
    return std::nullopt;
  }
  found.time = *time;
  if (before.ends_with(" kernel: ")) {
    before.remove_prefix(before.find_first_not_of(' '));
    found.host = before.substr(0, before.find(' '));
  }
  expected = "NVRM: Xid (PCI:0000:1b:00): NUMBER";
  const size_t end = rest.find("): ");
  if (end == rest.npos) {
    return std::nullopt;
  }
  const std::string_view pci = rest.substr(0, end);
  found.pci = plain_pci(pci.find('.') == pci.npos ? std::string(pci) + ".0" : std::string(pci));
  rest.remove_prefix(end + 3);
  constexpr int64_t kMostXid = 100'000;
  const auto [stop, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), found.xid);
  const bool is_number = problem == std::errc() && found.xid > 0 && found.xid < kMostXid &&
                         (stop == rest.data() + rest.size() || *stop == ',' || *stop == ' ');
  return is_number && !found.pci.empty() ? std::optional(std::move(found)) : std::nullopt;
}

}  // namespace

Result<std::string> telemetry_of_kernel_log(std::string_view text, const std::string& file,
                                            const std::string& host) {
  std::map<std::string, int> devices;
  std::string lines;
  std::string own_host = host;
  uint64_t number = 0;
  for (size_t end = 0; !text.empty(); text.remove_prefix(std::min(end + 1, text.size()))) {
    end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    ++number;
    if (line.find(kXidMark) == line.npos) {
      continue;
    }
    std::string_view expected;
    const std::optional<XidFound> found = parse_xid_line(line, expected);
    if (!found) {
      return ReadError{file, number, fmt::format("expected {}", expected), true};
    }
    own_host = own_host.empty() ? found->host : own_host;
    if (own_host.empty() || (!found->host.empty() && found->host != own_host)) {
      return ReadError{file, number,
                       own_host.empty()
                           ? "expected the host before `kernel:`; else give --host=NAME"
                           : "expected lines of one host, " + own_host,
                       true};
    }
    const auto [device, is_new] = devices.try_emplace(found->pci, static_cast<int>(devices.size()));
    if (device->second >= kMostTelemetryDevices) {
      return ReadError{file, number, "expected fewer GPUs", true};
    }
    lines += is_new ? text_of(DeviceLine{device->second, "", found->pci, ""}) : "";
    lines += text_of(XidLine{device->second, found->time, found->xid});
  }
  if (lines.empty()) {
    return ReadError{file, 0, "expected lines with `NVRM: Xid`: there is none", true};
  }
  return std::string(kTelemetryMagic) + "\n" + text_of(FactLine{"source", "kernel-log"}) +
         text_of(FactLine{"host", own_host}) + lines;
}

}  // namespace traintrace
