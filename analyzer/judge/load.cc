#include "analyzer/judge/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "analyzer/model/process/barriers.h"
#include "analyzer/model/process/launch_facts.h"

namespace traintrace {
namespace {

ReadError no_run(const std::string& message) {
  ReadError error;
  error.message = message;
  error.fatal = true;
  return error;
}

// A folder may hold pointers of several jobs.
bool is_of_run(const Run& run, const ElsewhereTrace& trace) {
  return trace.run_key == 0 ||
         std::any_of(run.processes.begin(), run.processes.end(), [&](const ProcessTrace& process) {
           return process.run_key == 0 || process.run_key == trace.run_key;
         });
}

void take_unreadable(const std::vector<ReadError>& unreadable, Run& run) {
  for (const ReadError& error : unreadable) {
    if (!error.elsewhere) {
      (error.not_begun ? run.not_begun : run.unreadable).push_back(error);
    } else if (is_of_run(run, *error.elsewhere)) {
      run.elsewhere.push_back(*error.elsewhere);
    }
  }
  std::sort(run.elsewhere.begin(), run.elsewhere.end(),
            [](const ElsewhereTrace& a, const ElsewhereTrace& b) {
              return std::tie(a.rank, a.host, a.path) < std::tie(b.rank, b.host, b.path);
            });
}

}  // namespace

Run load(RunInput input, const std::vector<ReadError>& unreadable, const RunOptions& options) {
  Run run;
  run.id = std::move(input.about.id);
  run.hang_after = options.hang_after;
  run.processes = std::move(input.processes);
  for (ProcessTrace& trace : run.processes) {
    // Not every source says when the process began: no later than what it did first.
    trace.armed = trace.armed == 0 ? first_sign_of_life(trace) : trace.armed;
    note_barriers(trace);
  }
  take_unreadable(unreadable, run);
  std::move(input.damaged.begin(), input.damaged.end(), std::back_inserter(run.unreadable));
  return run;
}

Result<size_t> chosen_run(std::span<const RunInput> inputs, const std::string& id) {
  if (inputs.empty()) {
    return no_run("expected the trace of at least one process that used a GPU");
  }
  std::vector<std::string> names;
  for (const RunInput& input : inputs) {
    names.push_back(input.about.id);
  }
  const auto chosen = id.empty() ? names.end() - 1 : std::find(names.begin(), names.end(), id);
  if (chosen == names.end()) {
    return no_run(fmt::format("there is no run '{}', but: {}", id, fmt::join(names, ", ")));
  }
  return static_cast<size_t>(chosen - names.begin());
}

}  // namespace traintrace
