// traintrace report: tables.
#include <memory>

#include "analyzer/commands/command.h"
#include "analyzer/importers/kineto.h"
#include "analyzer/reader/read_trace.h"
#include "analyzer/reporters/report_table.h"
#include "analyzer/symbols/symbolizer.h"

namespace traintrace {
namespace {

struct ReportArguments {
  std::vector<std::string> traces;
  std::string by = "call";
  std::string form;
};

int print_in_form(const ReportTable& table, const std::string& form) {
  return print(form == "json"  ? report_json(table)
               : form == "csv" ? report_csv(table)
                               : report_text(table));
}

int report_profiles(const std::vector<std::string>& files, const ReportArguments& arguments) {
  if (arguments.by != "rank" && arguments.by != "step") {
    return fail("--by=" + arguments.by +
                " of a profiler's traces is not built yet: --by=rank, --by=step");
  }
  std::vector<Timeline> timelines;
  for (const std::string& file : files) {
    KinetoTrace trace = read_kineto(file);
    for (const ReadError& error : trace.errors) {
      say(error);
    }
    if (trace.events != 0) {
      timelines.push_back(std::move(trace.timeline));
    }
  }
  if (timelines.empty()) {
    return 2;
  }
  return print_in_form(
      arguments.by == "rank" ? report_by_rank(timelines) : report_by_step(timelines),
      arguments.form);
}

int report(const ReportArguments& arguments) {
  if (const std::vector<std::string> files = find_kineto(arguments.traces); !files.empty()) {
    return report_profiles(files, arguments);
  }
  if (arguments.by != "call" && arguments.by != "stack") {
    return fail("--by=" + arguments.by + " is not built yet");
  }
  const TraceSet set = read_traces(arguments.traces, {.events = true});
  for (const ReadError& error : set.errors) {
    say(error);
  }
  if (set.processes.empty()) {
    return 2;
  }
  Symbolizer symbolizer;
  const ReportTable table = arguments.by == "call" ? report_by_call(set.processes)
                                                   : report_by_stack(set.processes, symbolizer);
  return print_in_form(table, arguments.form);
}

}  // namespace

void declare_report(CLI::App& command, Invocation& invocation) {
  auto arguments = std::make_shared<ReportArguments>();
  add_traces(command, arguments->traces);
  command.add_option("--by", arguments->by, "what a row is")
      ->check(CLI::IsMember({"call", "rank", "stream", "stack", "step"}))
      ->capture_default_str();
  add_format(command, arguments->form, {"text", "json", "csv"});
  command.callback([arguments, &invocation] { invocation.status = report(*arguments); });
}

}  // namespace traintrace
