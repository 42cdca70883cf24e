// traintrace telemetry: what the GPUs of this machine say of themselves, beside a job.
#include <memory>

#include "analyzer/commands/command.h"
#include "analyzer/commands/live/telemetry_alerts.h"
#include "analyzer/commands/live/verdict_hooks.h"
#include "analyzer/telemetry/recording.h"
#include "analyzer/text/words.h"

namespace traintrace {
namespace {

struct TelemetryArguments {
  std::string folder = "traintrace";
  std::string interval = "1s";
  std::string linger = "5s";
  uint64_t limit_mb = 128;
  bool nvlink = false;
  std::string prometheus;
  std::vector<std::string> on;
};

// What --on says; false: it was not understood, as is told.
bool read_hooks(const std::vector<std::string>& texts, std::vector<VerdictHook>& hooks) {
  for (const std::string& text : texts) {
    std::string complaint;
    const std::optional<VerdictHook> hook = parse_hook(text, complaint);
    if (!hook || !is_about_telemetry(*hook)) {
      fail(hook ? "--on=" + text +
                      ": telemetry finds device.xid, device.ecc, device.throttled and "
                      "device.link-degraded; for others see `traintrace attach --watch`"
                : complaint);
      return false;
    }
    hooks.push_back(*hook);
  }
  return true;
}

int record(const TelemetryArguments& arguments) {
  constexpr int64_t kShortestNs = 100'000'000;
  constexpr int64_t kLongestNs = 60'000'000'000;
  const auto interval = parse_duration(arguments.interval);
  const auto linger = parse_duration(arguments.linger);
  if (!interval || *interval < kShortestNs || *interval > kLongestNs) {
    return fail("--interval=" + arguments.interval + ": write a time from 100ms to 60s");
  }
  if (!linger || *linger < 0) {
    return fail("--linger=" + arguments.linger + ": write a time as 5s");
  }
  TelemetryOptions options;
  options.folder = arguments.folder;
  options.interval_ns = *interval;
  options.linger_ns = *linger;
  options.nvlink = arguments.nvlink;
  options.most_bytes = (arguments.limit_mb << 20) / 2;  // this file and the one before
  options.prometheus = arguments.prometheus;
  std::vector<VerdictHook> hooks;
  if (!read_hooks(arguments.on, hooks)) {
    return 2;
  }
  TelemetryAlerts alerts(arguments.folder, hooks);
  if (!hooks.empty()) {
    options.alert = [&](const auto& codes, auto& told) { return alerts.take(codes, told); };
    options.last_alert = [&](const auto& codes) { alerts.finish(codes); };
  }
  return record_telemetry(options, [](const std::string& line) { note(line); });
}

}  // namespace

void declare_telemetry(CLI::App& command, Invocation& invocation) {
  auto arguments = std::make_shared<TelemetryArguments>();
  command.add_option("--dir", arguments->folder, "folder of the job's traces")
      ->capture_default_str();
  command.add_option("--interval", arguments->interval, "time between two readings")
      ->capture_default_str();
  command
      .add_option("--linger", arguments->linger,
                  "goes on for so long after the last recorded process of this host has ended")
      ->capture_default_str();
  command.add_option("--limit-mb", arguments->limit_mb, "space that its files may take")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  command.add_flag("--nvlink", arguments->nvlink,
                   "read the errors of NVLinks, too: a slow query, once a minute");
  command.add_option("--prometheus", arguments->prometheus,
                     "keep the latest readings in this file (*.prom), for node_exporter");
  command
      .add_option(
          "--on", arguments->on,
          "CODE,..:COMMAND: run this shell command once there is a finding device.* with one "
          "of these codes; it gets the findings as JSON on stdin")
      ->type_name("CODE,..:COMMAND");
  command.callback([arguments, &invocation] { invocation.status = record(*arguments); });
}

}  // namespace traintrace
