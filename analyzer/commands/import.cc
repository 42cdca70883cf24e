// traintrace import: another tool's files as text that all other commands read.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>

#include "analyzer/commands/command.h"
#include "analyzer/importers/other_files.h"
#include "analyzer/text/dump_printer.h"

namespace traintrace {
namespace {

struct ImportArguments {
  std::string kind;
  std::vector<std::string> files;
  std::string out;
};

// In a folder of traces it must be called like one.
std::string target_of(const ImportArguments& arguments) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(arguments.out, ignored);
  return folder ? arguments.out + "/" + arguments.kind + ".trace" : arguments.out;
}

int write(const std::vector<ProcessTrace>& processes, const ImportArguments& arguments) {
  int status = 0;
  if (arguments.out == "-") {
    print_dump(processes, {}, [&](std::string_view text) { status = status | print(text); });
    return status;
  }
  const std::string target = target_of(arguments);
  std::ofstream file(target, std::ios::binary | std::ios::trunc);
  print_dump(processes, {}, [&](std::string_view text) { file << text; });
  file.close();
  return file ? 0 : fail("cannot write " + target);
}

int import(const ImportArguments& arguments) {
  constexpr std::string_view kBuilt[] = {"flight-recorder", "torch-snapshot", "rmm-csv"};
  if (std::find(std::begin(kBuilt), std::end(kBuilt), arguments.kind) == std::end(kBuilt)) {
    return fail("'import " + arguments.kind + "' is not built yet");
  }
  const TraceSet set = read_traces(arguments.files, {.events = false});
  for (const ReadError& error : set.errors) {
    say(error);
  }
  for (const ProcessTrace& trace : set.processes) {
    const auto source = trace.facts.find("source");
    if (source == trace.facts.end() || source->second != arguments.kind) {
      return fail(trace.source + ": expected a file of " + arguments.kind);
    }
  }
  return set.processes.empty() ? 2 : write(set.processes, arguments);
}

}  // namespace

void declare_import(CLI::App& command, Invocation& invocation) {
  auto arguments = std::make_shared<ImportArguments>();
  command.add_option("KIND", arguments->kind, "whose files")
      ->required()
      ->check(
          CLI::IsMember({"flight-recorder", "kineto", "torch-snapshot", "rmm-csv", "nccl-ras"}));
  command.add_option("FILE", arguments->files, "files, or folders of them")->required();
  command
      .add_option("--out", arguments->out, "file to write, or folder to write it to; - is stdout")
      ->required();
  command.callback([arguments, &invocation] { invocation.status = import(*arguments); });
}

}  // namespace traintrace
