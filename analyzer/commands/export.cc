// traintrace export: files for other viewers.
#include <fcntl.h>
#include <sys/stat.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "analyzer/commands/command.h"
#include "analyzer/commands/export_processes.h"
#include "analyzer/commands/output_file.h"
#include "analyzer/commands/sources/gpu_timelines.h"
#include "analyzer/exporters/collapsed.h"
#include "analyzer/exporters/csv.h"
#include "analyzer/exporters/flight_recorder.h"
#include "analyzer/exporters/heaptrack.h"
#include "analyzer/exporters/kineto.h"
#include "analyzer/exporters/perfetto.h"
#include "analyzer/exporters/sqlite.h"
#include "analyzer/exporters/torch_snapshot.h"
#include "analyzer/isolation/stage.h"
#include "analyzer/judge/judge.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/reader/files/united_errors.h"
#include "analyzer/reader/read_trace.h"

namespace traintrace {
namespace {

struct ExportArguments {
  std::string kind;
  std::vector<std::string> traces;
  std::string output;
  std::string bytes = "live";
};

// What of several cannot be made for a defect of ours leaves no file.
int export_one(const std::string& what, const std::string& path,
               const std::function<std::string()>& bytes_of) {
  int status = 0;
  run_stage("export of " + what, [&] { status = write_output(path, bytes_of()); });
  return status;
}

// A dump does not say when it was made; whoever reads it takes the file's time for that.
void set_made(const std::string& path, TimeNs time) {
  constexpr TimeNs kSecond = 1'000'000'000;
  const timespec moment = {static_cast<time_t>(time / kSecond), static_cast<long>(time % kSecond)};
  const timespec times[] = {moment, moment};
  ::utimensat(AT_FDCWD, path.c_str(), times, 0);
}

// A file per rank, whose name ends with it: what PyTorch's analyzer looks for.
int export_dumps(const Run& run, const ExportArguments& arguments) {
  const BlockedOperations blocked = blocked_operations(run);
  if (arguments.output == "-") {
    return run.ranks.size() == 1
               ? print(flight_recorder_dump(run, run.ranks.front(), blocked))
               : fail("several ranks go to several files: --output=PREFIX instead of -");
  }
  int status = 0;
  for (const RankState& state : run.ranks) {
    const std::string path = arguments.output + std::to_string(state.rank.value);
    const int own = export_one("rank " + std::to_string(state.rank.value), path,
                               [&] { return flight_recorder_dump(run, state, blocked); });
    if (own == 0) {
      set_made(path, known_until(run, state));
    }
    status = std::max(status, own);
  }
  return status;
}

// "snap.rank2.pickle" of "snap.pickle", as tools look for the ending; "snap2" and "snap.2" of what
// has none.
std::string with_rank(const std::string& path, const std::string& rank) {
  const size_t begin = path.rfind('/') + 1;  // 0 where there is none
  const size_t dot = path.rfind('.');
  if (dot == path.npos || dot <= begin || dot + 1 == path.size()) {
    return path + rank;
  }
  return path.substr(0, dot) + ".rank" + rank + path.substr(dot);
}

// One process to the file that was named; of several each to its own, whose name has its rank.
int export_each(const std::vector<ProcessTrace>& processes, const ExportArguments& arguments,
                const std::function<std::string(const ProcessTrace&)>& bytes_of) {
  if (processes.size() == 1) {
    return write_output(arguments.output, bytes_of(processes.front()));
  }
  if (arguments.output == "-") {
    return fail("several processes go to several files: --output=PREFIX instead of -");
  }
  std::set<std::string> taken;
  int status = 0;
  for (size_t i = 0; i < processes.size(); ++i) {
    std::string name = file_name_of(processes[i], i);
    if (!taken.insert(name).second) {  // of another run, say
      name += ".process" + std::to_string(i);
    }
    status = std::max(status, export_one(processes[i].source, with_rank(arguments.output, name),
                                         [&] { return bytes_of(processes[i]); }));
  }
  return status;
}

int export_memory(const std::vector<ProcessTrace>& processes, const ExportArguments& arguments) {
  Symbolizer symbolizer;
  if (arguments.kind == "collapsed") {
    const CollapsedBytes bytes = arguments.bytes == "live"   ? CollapsedBytes::kLive
                                 : arguments.bytes == "peak" ? CollapsedBytes::kPeak
                                                             : CollapsedBytes::kGrowth;
    return write_output(arguments.output, collapsed_stacks(processes, bytes, symbolizer));
  }
  const auto file_of = arguments.kind == "heaptrack" ? heaptrack_file : torch_snapshot;
  return export_each(processes, arguments,
                     [&](const ProcessTrace& trace) { return file_of(trace, symbolizer); });
}

// A file per rank that has a timeline, whose name ends with it where there are several.
int export_timelines(const Run& run, const ExportArguments& arguments) {
  const GpuTimelines own = gpu_timelines_of(run);
  if (own.timelines.empty()) {
    return fail(why_no_gpu_timeline(run, own));
  }
  if (own.timelines.size() == 1) {
    return write_output(arguments.output, kineto_trace(own.timelines.front()));
  }
  if (arguments.output == "-") {
    return fail("several ranks go to several files: --output=PREFIX instead of -");
  }
  int status = 0;
  for (const Timeline& timeline : own.timelines) {
    const std::string path = arguments.output + std::to_string(*timeline.rank) + ".json";
    status = std::max(status, export_one("rank " + std::to_string(*timeline.rank), path,
                                         [&] { return kineto_trace(timeline); }));
  }
  return status;
}

int export_perfetto(const ExportArguments& arguments) {
  const Result<std::string> trace = export_processes(arguments.traces, perfetto_trace);
  return trace ? write_output(arguments.output, *trace) : fail(trace.error());
}

// Written as it is made: there is a row for each call.
int export_csv(const ExportArguments& arguments) {
  std::optional<OutputFile> file;
  const Result<std::string> made = export_processes(
      arguments.traces, [&](std::span<const ExportedProcess> processes, std::span<const Finding>,
                            const ReadEvents& read_events) {
        file.emplace(arguments.output);
        write_csv(processes, read_events, [&](std::string_view text) { file->write(text); });
        return std::string();
      });
  return made ? file->close() : fail(made.error());
}

int export_sqlite(const ExportArguments& arguments) {
  if (arguments.output == "-") {
    return fail("a database goes to a file: --output=FILE instead of -");
  }
  std::optional<ReadError> problem;
  const Result<std::string> made = export_processes(
      arguments.traces, [&](std::span<const ExportedProcess> processes,
                            std::span<const Finding> findings, const ReadEvents& read_events) {
        Result<SqliteFile> file = SqliteFile::create(arguments.output);
        if (file) {
          write_sqlite(processes, findings, read_events, *file);
          problem = file->close();
        } else {
          problem = file.error();
        }
        return std::string();
      });
  return !made ? fail(made.error()) : problem ? fail(*problem) : 0;
}

int export_traces(const ExportArguments& arguments) {
  if (arguments.kind == "perfetto") {
    return export_perfetto(arguments);
  }
  if (arguments.kind == "csv") {
    return export_csv(arguments);
  }
  if (arguments.kind == "sqlite") {
    return export_sqlite(arguments);
  }
  const bool memory = arguments.kind == "torch-snapshot" || arguments.kind == "heaptrack" ||
                      arguments.kind == "collapsed";
  TraceSet set = read_traces(arguments.traces, {.events = memory});
  const std::vector<ReadError> errors = told_errors(set);
  for (const ReadError& error : errors) {
    say(error);
  }
  if (set.processes.empty() && (memory || !errors.empty())) {
    return 2;
  }
  if (memory) {
    return export_memory(set.processes, arguments);
  }
  Result<JudgedRun> judged = judge(std::move(set.processes), set.errors, {});
  if (!judged) {
    return fail(judged.error());
  }
  return arguments.kind == "kineto" ? export_timelines(judged->run, arguments)
                                    : export_dumps(judged->run, arguments);
}

}  // namespace

void declare_export(CLI::App& command, Invocation& invocation) {
  auto arguments = std::make_shared<ExportArguments>();
  command.add_option("KIND", arguments->kind, "format to write")
      ->required()
      ->check(CLI::IsMember({"perfetto", "kineto", "flight-recorder", "torch-snapshot", "heaptrack",
                             "collapsed", "csv", "sqlite"}));
  add_debuginfod(command);
  add_traces(command, arguments->traces);
  command
      .add_option(
          "-o,--output", arguments->output,
          "file to write, - is stdout; for flight-recorder the beginning of each file's name, "
          "followed by the rank; for torch-snapshot and heaptrack with several processes each file "
          "has the rank before its ending: snap.rank2.pickle")
      ->required();
  command.add_option("--bytes", arguments->bytes, "for collapsed: which bytes; growth is per step")
      ->check(CLI::IsMember({"live", "peak", "growth"}))
      ->capture_default_str();
  command.callback([arguments, &invocation] {
    invocation.status = supervised([&] {
      const int status = export_traces(*arguments);
      return internal_errors().empty()
                 ? status
                 : fail("what was exported is not whole: parts of it could not be made");
    });
  });
}

}  // namespace traintrace
