#include "analyzer/model/runs/split_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/launch_facts.h"
#include "analyzer/model/runs/grouping.h"
#include "analyzer/model/runs/grown_communicators.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// As the launcher calls it, else by its start; unlike any other in the input.
std::vector<std::string> name_runs(const std::vector<ProcessTrace>& traces,
                                   const std::vector<RunGroup>& groups) {
  std::vector<std::string> names;
  std::multiset<std::string> used;
  for (const RunGroup& group : groups) {
    names.push_back(launch_name(traces[group.ranks.front()]));
    used.insert(names.back());
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    if (names[i].empty() || used.count(names[i]) > 1) {
      const TimeNs start = groups[i].start;
      names[i] += fmt::format("{}{}.{:03}", names[i].empty() ? "run-" : "-", start / 1'000'000'000,
                              start / 1'000'000 % 1000);
    }
  }
  // Started in the same millisecond.
  std::set<std::string> taken;
  for (std::string& name : names) {
    const std::string first = name;
    for (size_t number = 2; !taken.insert(name).second; ++number) {
      name = fmt::format("{}-{}", first, number);
    }
  }
  return names;
}

std::vector<ProcessTrace> take(std::vector<ProcessTrace>& traces,
                               const std::vector<size_t>& which) {
  std::vector<ProcessTrace> taken;
  taken.reserve(which.size());
  for (const size_t i : which) {
    taken.push_back(std::move(traces[i]));
  }
  std::sort(taken.begin(), taken.end(), [](const ProcessTrace& a, const ProcessTrace& b) {
    return std::tie(a.host, a.pid, a.start_time, a.armed, a.source) <
           std::tie(b.host, b.pid, b.start_time, b.armed, b.source);
  });
  return taken;
}

int restarts_of(const ProcessTrace& trace) {
  const auto by_agent = environment_number(trace, "TORCHELASTIC_RESTART_COUNT");
  const auto by_queue = environment_number(trace, "SLURM_RESTART_COUNT");
  return by_agent.value_or(0) + by_queue.value_or(0);
}

// One launcher started both.  What torchrun calls "none" is any job's id: then it is the parent.
bool are_of_one_launcher(const RunInput& a, const RunInput& b) {
  const auto name = [](const RunInput& input, const char* variable) {
    return environment(input.processes.front(), variable);
  };
  const std::string_view id = name(a, "TORCHELASTIC_RUN_ID");
  if (id != name(b, "TORCHELASTIC_RUN_ID") || name(a, "SLURM_JOB_ID") != name(b, "SLURM_JOB_ID")) {
    return false;
  }
  if ((!id.empty() && id != "none") || !name(a, "SLURM_JOB_ID").empty()) {
    return true;
  }
  return std::any_of(a.processes.begin(), a.processes.end(), [&](const ProcessTrace& one) {
    return one.parent_pid > 1 &&
           std::any_of(b.processes.begin(), b.processes.end(), [&](const ProcessTrace& other) {
             return other.parent_pid == one.parent_pid && other.host == one.host &&
                    other.boot == one.boot;
           });
  });
}

// A process of it still runs: nobody has replaced that.
bool is_there(const RunInput& input) {
  return std::any_of(input.processes.begin(), input.processes.end(),
                     [](const ProcessTrace& trace) { return trace.running_now == true; });
}

void find_restarts(std::vector<RunInput>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    int most = restarts_of(inputs[i].processes.front());
    for (size_t j = i + 1; j < inputs.size() && !is_there(inputs[i]); ++j) {
      const int restarts = restarts_of(inputs[j].processes.front());
      if (restarts > most && are_of_one_launcher(inputs[i], inputs[j])) {
        most = restarts;
        inputs[i].about.restarted_as = inputs[j].about.id;
      }
    }
  }
}

bool has_identity(const ProcessTrace& trace) {
  return launched_rank(trace) || !trace.communicators.empty();
}

// Damaged traces that have lost what says which rank of which run they are.  As runs of their own
// they would have a rank 0, and hide that a rank of another lacks its trace.
std::vector<ProcessTrace> take_unknown(std::vector<ProcessTrace>& traces) {
  std::vector<ProcessTrace> unknown;
  if (std::any_of(traces.begin(), traces.end(), has_identity)) {
    const auto first = std::stable_partition(
        traces.begin(), traces.end(),
        [](const ProcessTrace& trace) { return trace.errors.empty() || has_identity(trace); });
    std::move(first, traces.end(), std::back_inserter(unknown));
    traces.erase(first, traces.end());
  }
  return unknown;
}

// Of those that went on when it was there the latest, one on its host if there is one.
RunInput& likeliest_run(std::vector<RunInput>& inputs, const ProcessTrace& trace) {
  const auto fit = [&](const RunInput& input) {
    const bool at_one_time = elapsed(input.about.end, trace.armed) <= kOverlapSlack &&
                             elapsed(last_sign_of_life(trace), input.about.start) <= kOverlapSlack;
    const bool on_its_host =
        std::any_of(input.processes.begin(), input.processes.end(),
                    [&](const ProcessTrace& other) { return other.host == trace.host; });
    return std::pair(at_one_time, on_its_host);
  };
  size_t best = inputs.size() - 1;
  for (size_t i = inputs.size(); i-- > 0;) {
    best = fit(inputs[i]) > fit(inputs[best]) ? i : best;
  }
  return inputs[best];
}

}  // namespace

std::vector<RunInput> split_runs(std::vector<ProcessTrace> traces) {
  const std::vector<ProcessTrace> unknown = take_unknown(traces);
  unite_grown_communicators(traces);
  const std::vector<RunGroup> groups = group_runs(traces);
  const std::vector<std::string> names = name_runs(traces, groups);
  std::vector<RunInput> inputs;
  for (size_t i = 0; i < groups.size(); ++i) {
    RunInput& input = inputs.emplace_back();
    input.about.id = names[i];
    input.about.ranks = static_cast<int>(groups[i].ranks.size());
    input.about.start = groups[i].start;
    input.about.end = groups[i].end;
    input.processes = take(traces, groups[i].ranks);
  }
  find_restarts(inputs);
  for (const ProcessTrace& trace : unknown) {
    likeliest_run(inputs, trace).damaged.push_back(trace.errors.front());
  }
  return inputs;
}

}  // namespace traintrace
