// `traintrace telemetry --on`: what the GPUs' counters mean for the job, while it runs.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "analyzer/commands/live/verdict_hooks.h"

namespace traintrace {

// Whether telemetry can find something that the hook is about.
bool is_about_telemetry(const VerdictHook& hook);

class TelemetryAlerts {
 public:
  TelemetryAlerts(std::string folder, std::vector<VerdictHook> hooks)
      : folder_(std::move(folder)), hooks_(std::move(hooks)) {}

  // In a child of its own, so that neither traces nor commands hold the readings up: judges what is
  // recorded in the folder and runs the commands for findings with these codes.  `codes` empty:
  // only sees whether the child before has ended, and adds to `told` what that found of a slowed
  // clock and a worse link.  False: it still runs, and nothing was begun.
  bool take(const std::vector<std::string>& codes, std::vector<std::string>& told);
  // Once the job is over: the same for these two over all of its time, and waits for a minute at
  // most.
  void finish(const std::vector<std::string>& codes);

 private:
  [[noreturn]] void run(const std::vector<std::string>& codes) const;

  std::string folder_;
  std::vector<VerdictHook> hooks_;
  pid_t child_ = -1;
};

}  // namespace traintrace
