// traintrace export: files for other viewers.
#include <fstream>
#include <memory>

#include "analyzer/commands/command.h"
#include "analyzer/exporters/flight_recorder.h"
#include "analyzer/model/build_run.h"
#include "analyzer/reader/read_trace.h"

namespace traintrace {
namespace {

struct ExportArguments {
  std::string kind;
  std::vector<std::string> traces;
  std::string output;
};

bool write(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  return static_cast<bool>(file);
}

// A file per rank, whose name ends with it: what PyTorch's analyzer looks for.
int export_dumps(const Run& run, const ExportArguments& arguments) {
  if (arguments.output == "-") {
    return run.ranks.size() == 1
               ? print(flight_recorder_dump(run, run.ranks.front()))
               : fail("several ranks go to several files: --output=PREFIX instead of -");
  }
  for (const RankState& state : run.ranks) {
    const std::string path = arguments.output + std::to_string(state.rank.value);
    if (!write(path, flight_recorder_dump(run, state))) {
      return fail("cannot write " + path);
    }
  }
  return 0;
}

int export_run(const ExportArguments& arguments) {
  if (arguments.kind != "flight-recorder") {
    return fail("'export " + arguments.kind + "' is not built yet");
  }
  TraceSet set = read_traces(arguments.traces, {.events = false});
  for (const ReadError& error : set.errors) {
    say(error);
  }
  if (set.processes.empty() && !set.errors.empty()) {
    return 2;
  }
  const Result<Run> run = build_run(std::move(set.processes), std::move(set.errors), {});
  return run ? export_dumps(*run, arguments) : fail(run.error());
}

}  // namespace

void declare_export(CLI::App& command, Invocation& invocation) {
  auto arguments = std::make_shared<ExportArguments>();
  command.add_option("KIND", arguments->kind, "for whom")
      ->required()
      ->check(CLI::IsMember({"perfetto", "kineto", "flight-recorder", "torch-snapshot", "heaptrack",
                             "collapsed", "csv"}));
  add_traces(command, arguments->traces);
  command
      .add_option("--output", arguments->output,
                  "file to write, - is stdout; of flight-recorder what the file of each rank is "
                  "called, before the rank")
      ->required();
  command.callback([arguments, &invocation] { invocation.status = export_run(*arguments); });
}

}  // namespace traintrace
