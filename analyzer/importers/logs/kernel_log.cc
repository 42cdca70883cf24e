#include <fmt/format.h>

#include <charconv>
#include <map>

#include "analyzer/importers/logs/gpu_logs.h"
#include "analyzer/importers/logs/log_lines.h"
#include "analyzer/importers/logs/log_time.h"
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

// `expected`: what should be there, where it is not.
std::optional<XidFound> parse_xid_line(std::string_view line, std::string_view& expected) {
  XidFound found;
  const size_t mark = line.find(kXidMark);
  std::string_view rest = line.substr(mark + kXidMark.size());
  std::string_view before = line.substr(0, mark);
  expected =
      "a time such as 2026-11-26T05:10:00+00:00: dmesg --time-format=iso or -T, journalctl -k -o "
      "short-iso";
  std::optional<int64_t> time = take_iso_time(before);
  if (!time) {
    before = line.substr(0, mark);
    time = take_dmesg_time(before);
  }
  if (!time) {
    return std::nullopt;
  }
  found.time = *time;
  // "node7 kernel: ", in /var/log/kern.log also "node7 kernel: [ 1843.308145] ".
  if (const size_t kernel = before.rfind(" kernel: "); kernel != before.npos) {
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
  const Result<std::string_view> utf8 = utf8_text(text, file);
  if (!utf8) {
    return utf8.error();
  }
  text = *utf8;
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
