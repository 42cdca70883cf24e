#include "analyzer/commands/live/telemetry_alerts.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iterator>
#include <thread>
#include <utility>

#include "analyzer/commands/command.h"
#include "analyzer/commands/live/judge_job.h"
#include "analyzer/detectors/device/telemetry_findings.h"
#include "analyzer/telemetry/gpu_history.h"

namespace traintrace {
namespace {

constexpr std::string_view kTelemetryCodes[] = {"device.xid", "device.ecc", "device.throttled",
                                                "device.link-degraded"};

// What lasts is found again and again: who began the child learns by its status what was told.
constexpr std::string_view kLastingCodes[] = {"device.throttled", "device.link-degraded"};
constexpr int kToldBase = 64;  // apart from the statuses of failures

int status_of(const std::vector<Finding>& findings) {
  int bits = 0;
  for (size_t i = 0; i < std::size(kLastingCodes); ++i) {
    const bool is_found = std::any_of(findings.begin(), findings.end(), [&](const Finding& each) {
      return each.code == kLastingCodes[i];
    });
    bits |= is_found ? 1 << i : 0;
  }
  return kToldBase + bits;
}

// Of all that there is to say about the job only what the counters say.
int judge_telemetry(const std::string& folder, const std::vector<VerdictHook>& hooks,
                    const std::vector<std::string>& codes) {
  constexpr TimeNs kHangAfter = 5'000'000'000;
  const TraceSet traces = read_traces(std::vector<std::string>{folder}, {.events = false});
  std::vector<ReadError> problems;  // of telemetry that is being written: the rest is used
  const TelemetryRecord telemetry = read_telemetry(traces.telemetry, problems);
  Result<JudgedRun> judged = judge_job(traces, {}, kHangAfter, [&](const Run& run) {
    std::vector<Finding> findings;
    add_telemetry(run, telemetry, findings);
    std::erase_if(findings, [&](const Finding& finding) {
      return std::find(codes.begin(), codes.end(), finding.code) == codes.end();
    });
    return findings;
  });
  if (judged && !judged->findings.empty()) {
    const int status = status_of(judged->findings);
    const Run& run = judged->run;
    const FindingsReport report = report_findings(run, std::move(judged->findings));
    run_hooks(hooks, report, findings_json(run, report), "");
    return status;
  }
  return 0;
}

}  // namespace

bool is_about_telemetry(const VerdictHook& hook) {
  return std::all_of(hook.codes.begin(), hook.codes.end(), [](const std::string& pattern) {
    return std::any_of(std::begin(kTelemetryCodes), std::end(kTelemetryCodes),
                       [&](std::string_view code) { return is_meant(pattern, code); });
  });
}

void TelemetryAlerts::run(const std::vector<std::string>& codes) const {
  // Those that end us are read from a descriptor; commands take them as everybody does.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  _exit(supervised([&] { return judge_telemetry(folder_, hooks_, codes); }));
}

bool TelemetryAlerts::take(const std::vector<std::string>& codes, std::vector<std::string>& told) {
  int status = 0;
  const pid_t ended = child_ > 0 ? waitpid(child_, &status, WNOHANG) : -1;
  if (ended == 0) {
    return false;
  }
  for (size_t i = 0; ended > 0 && i < std::size(kLastingCodes); ++i) {
    const int bits = WIFEXITED(status) ? WEXITSTATUS(status) - kToldBase : 0;
    if (bits > 0 && (bits & (1 << i)) != 0) {
      told.emplace_back(kLastingCodes[i]);
    }
  }
  child_ = -1;
  const bool is_wanted = std::any_of(codes.begin(), codes.end(), [&](const std::string& code) {
    return std::any_of(hooks_.begin(), hooks_.end(), [&](const VerdictHook& hook) {
      return std::any_of(hook.codes.begin(), hook.codes.end(),
                         [&](const std::string& pattern) { return is_meant(pattern, code); });
    });
  });
  if (is_wanted) {
    child_ = fork();
    if (child_ == 0) {
      run(codes);
    }
  }
  return true;
}

void TelemetryAlerts::finish(const std::vector<std::string>& codes) {
  constexpr auto kLongest = std::chrono::minutes(1);
  constexpr auto kTurn = std::chrono::milliseconds(20);
  const auto until = std::chrono::steady_clock::now() + kLongest;
  std::vector<std::string> last = codes;
  last.insert(last.end(), std::begin(kLastingCodes), std::end(kLastingCodes));
  std::vector<std::string> told;
  for (bool begun = false; std::chrono::steady_clock::now() < until;) {
    if (take(begun ? std::vector<std::string>() : last, told)) {
      if (begun || hooks_.empty()) {
        return;
      }
      begun = true;
    }
    std::this_thread::sleep_for(kTurn);
  }
}

}  // namespace traintrace
