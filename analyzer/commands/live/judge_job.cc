#include "analyzer/commands/live/judge_job.h"

#include <algorithm>
#include <iterator>

#include "analyzer/commands/sources/event_reader.h"

namespace traintrace {

bool is_recorded(const ProcessTrace& trace) {
  const auto source = trace.facts.find("source");
  return source == trace.facts.end() || source->second != "attach";
}

bool is_recorded(const std::vector<ProcessTrace>& processes) {
  return std::any_of(processes.begin(), processes.end(),
                     [](const ProcessTrace& trace) { return is_recorded(trace); });
}

namespace {

bool is_seen(const ProcessTrace& trace) {
  return std::any_of(trace.now.begin(), trace.now.end(), [](const ThreadNow& thread) {
    return !thread.python.empty() || !thread.native.empty();
  });
}

// It has one of those processes, or one of which something was seen.
bool is_of_job(const RunInput& input, const std::vector<pid_t>& pids) {
  return std::any_of(
      input.processes.begin(), input.processes.end(), [&](const ProcessTrace& trace) {
        return trace.running_now == true &&
               (is_seen(trace) ||
                (is_recorded(trace) && std::binary_search(pids.begin(), pids.end(), trace.pid)));
      });
}

// Those to judge come first: the recorded ones of the job, else the rest of it, else the latest.  A
// launcher, or any other process that is not recorded, must not stand for the ranks.
size_t order_by_job(std::vector<RunInput>& inputs, const std::vector<pid_t>& pids) {
  const auto rest = std::stable_partition(
      inputs.begin(), inputs.end(), [&](const RunInput& input) { return is_of_job(input, pids); });
  const auto unrecorded = std::stable_partition(
      inputs.begin(), rest, [](const RunInput& input) { return is_recorded(input.processes); });
  if (rest == inputs.begin() && !inputs.empty()) {
    std::rotate(inputs.begin(), inputs.end() - 1, inputs.end());
    return 1;
  }
  return static_cast<size_t>((unrecorded != inputs.begin() ? unrecorded : rest) - inputs.begin());
}

}  // namespace

Result<JudgedRun> judge_job(const TraceSet& traces, const std::vector<pid_t>& pids,
                            TimeNs hang_after, const Explain& explain) {
  EventReader events;
  RunOptions options;
  options.hang_after = hang_after;
  options.read_events = [&](const ProcessTrace& tables) { return events.read(tables); };
  std::vector<RunInput> inputs = split_runs(traces.processes);
  const size_t count = order_by_job(inputs, pids);
  std::vector<OtherRun> rest;
  for (size_t i = count; i < inputs.size(); ++i) {
    rest.push_back(inputs[i].about);
  }
  inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(count), inputs.end());
  Result<JudgedRun> judged = judge_runs(std::move(inputs), traces.errors, options, explain);
  if (judged) {
    std::move(rest.begin(), rest.end(), std::back_inserter(judged->run.others));
  }
  return judged;
}

}  // namespace traintrace
