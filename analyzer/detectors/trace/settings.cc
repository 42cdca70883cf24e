// A setting that is not in force as it was asked for: misspelt, not understood, or refused by what
// it needs.  The tracer wrote why into the trace.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/process/launch_facts.h"
#include "analyzer/text/nearest.h"
#include "format/schema.h"

namespace traintrace {
namespace {

using Facts = std::map<std::string, std::string>;

constexpr std::string_view kPrefix = "env.TRAINTRACE_";
constexpr size_t kEnv = 4;  // "env."

std::string value_of(const ProcessTrace& trace, const std::string& key) {
  const auto fact = trace.facts.find(key);
  return fact == trace.facts.end() ? "" : fact->second;
}

const format::SettingSpec* setting_called(std::string_view name) {
  for (const format::SettingSpec& setting : format::kSettings) {
    if (setting.environment == name) {
      return &setting;
    }
  }
  return nullptr;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const format::SettingSpec& setting : format::kSettings) {
    names.emplace_back(setting.environment);
  }
  return names;
}

// The tracer that recorded has written down which settings it knew.
void add_unknown_names(const ProcessTrace& trace, std::vector<std::string>& lines) {
  if (!trace.facts.contains("setting.TRAINTRACE_DIR")) {
    return;
  }
  for (const auto& [key, value] : trace.facts) {
    if (!key.starts_with(kPrefix) || trace.facts.contains("setting." + key.substr(kEnv))) {
      continue;
    }
    const std::string name = key.substr(kEnv);
    lines.push_back(
        fmt::format("{} is no setting and was ignored{}", name, did_you_mean(name, known_names())));
  }
}

void add_bad_values(const ProcessTrace& trace, std::vector<std::string>& lines) {
  constexpr std::string_view kError = "setting-error.";
  for (const auto& [key, why] : trace.facts) {
    if (!key.starts_with(kError)) {
      continue;
    }
    const std::string name = key.substr(kError.size());
    const format::SettingSpec* const setting = setting_called(name);
    lines.push_back(fmt::format("{}={} is {}{}: {} was used", name, value_of(trace, "env." + name),
                                why,
                                setting == nullptr || why.find("number") != std::string::npos
                                    ? ""
                                    : fmt::format(" ({})", setting->values),
                                value_of(trace, "setting." + name)));
  }
}

// What a setting needs was not to be had.  `prefix` comes before the reason.
struct Refusal {
  const char* fact;
  const char* prefix;
  const char* setting;
  const char* what;
};
constexpr Refusal kRefusals[] = {
    {"gpu-timeline", "none: ", "TRAINTRACE_GPU_TIMELINE", "no GPU timeline was recorded"},
    {"gpu-timeline-ended", "", "TRAINTRACE_GPU_TIMELINE", "the GPU timeline ends early"},
    {"gpu-progress", "observe: ", "TRAINTRACE_GPU_PROGRESS",
     "completion of NCCL operations was only observed"},
    {"gpu-progress-ended", "", "TRAINTRACE_GPU_PROGRESS",
     "from some time on, completion of NCCL operations was only observed"},
    {"on-abort", "nothing: ", "TRAINTRACE_ON_ABORT", "no stacks can be saved on an abort"},
    {"payload-refused", "", "TRAINTRACE_PAYLOAD", "no values were recorded"},
    {"payload-limited", "", "TRAINTRACE_PAYLOAD", "fewer values were recorded"},
    {"payload-checks", "none: ", "TRAINTRACE_PAYLOAD", "buffers of collectives were not looked at"},
    {"payload-checks-ended", "", "TRAINTRACE_PAYLOAD",
     "from some time on, buffers of collectives were not looked at"},
    {"calls-unmatched", "", "TRAINTRACE_CALLS", "no call has such a name"},
    {"ring-smaller", "", "TRAINTRACE_RING_MB", "the ring is smaller than asked for"},
    {"not-collected", "", "TRAINTRACE_COLLECT", "the trace was not collected"},
    {"not-in-folder", "", "TRAINTRACE_DIR", "the trace was written to another folder"},
};

void add_refusals(const ProcessTrace& trace, std::vector<std::string>& lines) {
  for (const Refusal& refusal : kRefusals) {
    const std::string value = value_of(trace, refusal.fact);
    if (!value.empty() && value.starts_with(refusal.prefix)) {
      lines.push_back(fmt::format("{}={}: {}: {}", refusal.setting,
                                  value_of(trace, std::string("setting.") + refusal.setting),
                                  refusal.what, value.substr(std::string(refusal.prefix).size())));
    }
  }
}

bool has_aborted(const ProcessTrace& trace, CommunicatorId id) {
  return std::any_of(trace.communicators.begin(), trace.communicators.end(),
                     [&](const CommunicatorText& text) {
                       return text.id == id.value && (text.flags & format::kAborted) != 0;
                     });
}

// Ranks that gave up a communicator in a hang, and were to save all stacks before, of which there
// are none: the program did not start there, or could not look.
std::map<std::string, Ranks> without_snapshot(const Run& run) {
  std::map<std::string, Ranks> by_program;
  if (std::any_of(run.processes.begin(), run.processes.end(),
                  [](const ProcessTrace& trace) { return trace.looked != 0; })) {
    return by_program;
  }
  for (const Hang& hang : run.waits.hangs) {
    const CommunicatorId id = run.communicators[run.waits.waits[hang.wait].communicator].id;
    for (const RankState& state : run.ranks) {
      const ProcessTrace& trace = trace_of(run, state);
      const std::string program = value_of(trace, "on-abort");
      if (program.starts_with('/') && has_aborted(trace, id)) {
        insert(by_program[program], state.rank);
      }
    }
  }
  return by_program;
}

}  // namespace

std::vector<Finding> find_settings_not_in_force(const Run& run) {
  std::map<std::string, Ranks> by_line;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    std::vector<std::string> lines;
    add_unknown_names(run.processes[i], lines);
    add_bad_values(run.processes[i], lines);
    add_refusals(run.processes[i], lines);
    for (const std::string& line : lines) {
      Ranks& ranks = by_line[line];
      for (const Rank rank : ranks_of_process(run, i)) {
        insert(ranks, rank);
      }
    }
  }
  for (const auto& [program, ranks] : without_snapshot(run)) {
    by_line[fmt::format(
        "TRAINTRACE_ON_ABORT=snapshot: there are no stacks of the end, although a "
        "communicator was aborted: {} did not start there, or could not look",
        program)] = ranks;
  }
  if (by_line.empty()) {
    return {};
  }
  Finding finding = trace_finding(run, "trace.settings", nullptr);
  for (const auto& [line, ranks] : by_line) {
    finding.evidence.push_back(fmt::format("{}: {}", ranks_text(ranks), line));
  }
  finding.title = by_line.size() == 1
                      ? finding.evidence.front()
                      : fmt::format("{} settings were not in force as asked for", by_line.size());
  if (by_line.size() == 1) {
    finding.evidence.clear();
  }
  finding.values = {{"setting_count", static_cast<int64_t>(by_line.size())}};
  finding.evidence = cut(std::move(finding.evidence));
  finding.advice = "`traintrace settings` lists what can be set, and to what";
  return {finding};
}

}  // namespace traintrace
