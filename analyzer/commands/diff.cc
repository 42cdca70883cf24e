// traintrace diff: a good run and a bad one.
#include <memory>

#include "analyzer/commands/command.h"
#include "analyzer/commands/event_reader.h"
#include "analyzer/model/build_run.h"
#include "analyzer/reader/read_trace.h"
#include "analyzer/reporters/diff_report.h"

namespace traintrace {
namespace {

struct DiffArguments {
  std::string a, b;
  std::string form;
};

Result<Run> run_of(const std::string& path) {
  const std::vector<std::string> paths = {path};
  TraceSet set = read_traces(paths, {.events = false});
  for (const ReadError& error : set.errors) {
    say(error);
  }
  if (set.processes.empty() && !set.errors.empty()) {
    return set.errors.front();
  }
  Result<Run> run = build_run(std::move(set.processes), {}, {});
  if (run) {
    return run;
  }
  ReadError error = run.error();
  error.file = path;
  return error;
}

int diff(const DiffArguments& arguments) {
  const Result<Run> a = run_of(arguments.a);
  if (!a) {
    return fail(a.error());
  }
  const Result<Run> b = run_of(arguments.b);
  if (!b) {
    return fail(b.error());
  }
  EventReader of_a;
  EventReader of_b;
  const auto read_events = [&](const ProcessTrace& tables) {
    const bool is_a =
        &tables >= a->processes.data() && &tables < a->processes.data() + a->processes.size();
    return is_a ? of_a.read(tables) : of_b.read(tables);
  };
  const RunDiff found = diff_runs(*a, *b, read_events);
  return print(arguments.form == "json" ? diff_json(found) : diff_text(found));
}

}  // namespace

void declare_diff(CLI::App& command, Invocation& invocation) {
  auto arguments = std::make_shared<DiffArguments>();
  command.add_option("TRACE_A", arguments->a, "a good run: its folder, or one trace")->required();
  command.add_option("TRACE_B", arguments->b, "a bad run of the same job")->required();
  add_format(command, arguments->form, {"text", "json"});
  command.callback([arguments, &invocation] { invocation.status = diff(*arguments); });
}

}  // namespace traintrace
