#include "analyzer/judge/judge.h"

#include "analyzer/detectors/detectors.h"
#include "analyzer/judge/stages.h"

namespace traintrace {

JudgedRun judge(RunInput input, const std::vector<ReadError>& unreadable, const RunOptions& options,
                const Explain& explain) {
  Run run = load(std::move(input), unreadable, options);
  assemble(run);
  match(run, options.read_events);
  Blocked blocked = block(run, options.read_events);
  find_roots(run, std::move(blocked), options.read_events);
  std::vector<Finding> findings = explain(run);
  return {std::move(run), std::move(findings)};
}

Result<JudgedRun> judge(std::vector<ProcessTrace> traces, const std::vector<ReadError>& unreadable,
                        const RunOptions& options) {
  std::vector<RunInput> inputs = split_runs(std::move(traces));
  const Result<size_t> chosen = chosen_run(inputs, options.run);
  if (!chosen) {
    return chosen.error();
  }
  JudgedRun judged = judge(std::move(inputs[*chosen]), unreadable, options, find_all);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i != *chosen) {
      judged.run.others.push_back(std::move(inputs[i].about));
    }
  }
  return judged;
}

}  // namespace traintrace
