// traintrace report: tables.
#include <memory>

#include "analyzer/commands/command.h"
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

int report(const ReportArguments& arguments) {
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
  return print(arguments.form == "json"  ? report_json(table)
               : arguments.form == "csv" ? report_csv(table)
                                         : report_text(table));
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
