#include "analyzer/live/unrecorded.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/live/ras.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/threads_now.h"

namespace traintrace {
namespace {

constexpr size_t kMostPlaces = 64;

// "ranks 0,1,3 are in ncclAllReduce"
std::string side_text(const Ranks& ranks, const std::string& doing) {
  const std::string verb = ranks.size() == 1             ? doing
                           : doing.starts_with("is ")    ? "are " + doing.substr(3)
                           : doing.starts_with("waits ") ? "wait " + doing.substr(6)
                           : doing.starts_with("runs")   ? "run" + doing.substr(4)
                                                         : doing;
  return ranks_text(ranks) + " " + verb;
}

bool uses_nccl(const ProcessTrace& trace) {
  return std::any_of(trace.now.begin(), trace.now.end(), [](const ThreadNow& thread) {
    return thread.waiting == Waiting::kNccl || thread.name.starts_with("NCCL");
  });
}

// All processes of a job know the same: the first is asked.
void add_ras(const Run& run, Finding& finding) {
  const auto one = std::find_if(run.processes.begin(), run.processes.end(), uses_nccl);
  if (one == run.processes.end()) {
    return;
  }
  const auto address = one->facts.find("env.NCCL_RAS_ADDR");
  const std::vector<std::string> lines =
      ask_ras(address == one->facts.end() ? "" : address->second);
  for (const std::string& line : lines) {
    finding.evidence.push_back("NCCL RAS: " + line);
  }
  if (lines.empty()) {
    finding.evidence.push_back(
        "NCCL RAS (from NCCL 2.24 on, NCCL_RAS_ENABLE) does not answer on its port");
  }
}

// "process 4711 (bash)", "processes 4711 (bash), 4712 (sh)"; empty: one of them uses a GPU.
std::string without_gpu(const Run& run) {
  std::string text;
  for (const ProcessTrace& trace : run.processes) {
    if (!trace.facts.contains("gpu-libraries")) {
      return "";
    }
    const auto line = trace.facts.find("command-line");
    std::string name = line == trace.facts.end() ? "" : line->second;
    name.resize(std::min(name.find_first_of(std::string_view(" \0", 2)), name.size()));
    name.erase(0, name.rfind('/') + 1);
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", trace.pid,
                        name.empty() ? "" : " (" + name + ")");
  }
  return (run.processes.size() == 1 ? "process " : "processes ") + text;
}

}  // namespace

Finding unrecorded_finding(const Run& run, TimeNs interval) {
  Finding finding;
  finding.code = "run.in-progress";
  finding.certainty = Certainty::kPossible;
  std::map<std::string, Ranks> sides;
  for (const RankState& state : run.ranks) {
    const ThreadNow* const thread = working_thread(run, state);
    if (thread == nullptr) {
      continue;
    }
    insert(sides[doing_text(*thread)], state.rank);
    const auto place = place_now(*thread, state.rank);
    if (place && finding.where.size() < kMostPlaces) {
      finding.where.push_back(*place);
    }
    if (finding.evidence.size() < kMostPlaces) {
      finding.evidence.push_back(fmt::format(
          "rank {} {}{}{}", state.rank.value, doing_text(*thread),
          place ? " at " + place_text(*place) : "",
          thread->steady ? fmt::format(", as {} before", seconds(interval)) : ", and moves"));
    }
  }
  std::string text;
  for (const auto& [doing, ranks] : sides) {
    text += (text.empty() ? "" : "; ") + side_text(ranks, doing);
    finding.sides.push_back(ranks);
  }
  finding.title =
      fmt::format("this job is not recorded, so who waits for whom cannot be said; right now {}",
                  text.empty() ? "nothing can be seen of it" : text);
  if (const std::string strangers = without_gpu(run); !strangers.empty()) {
    const bool alone = run.processes.size() == 1 && sides.size() == 1;
    finding.title = fmt::format("{} use{} neither CUDA nor NCCL; {}", strangers,
                                run.processes.size() == 1 ? "s" : "",
                                alone          ? "it " + sides.begin()->first
                                : text.empty() ? "nothing can be seen of it right now"
                                               : "right now " + text);
    finding.advice =
        "name the processes of the job; traintrace attach --all finds those that use "
        "a GPU";
    return finding;
  }
  add_ras(run, finding);
  finding.advice = "record the next run: traintrace run -- COMMAND";
  return finding;
}

}  // namespace traintrace
