// traintrace import: another tool's files as ones that all other commands read.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string_view>

#include "analyzer/commands/analyze.h"
#include "analyzer/commands/command.h"
#include "analyzer/commands/output_file.h"
#include "analyzer/commands/sources/profiled_run.h"
#include "analyzer/exporters/kineto.h"
#include "analyzer/importers/logs/gpu_logs.h"
#include "analyzer/importers/logs/testimony.h"
#include "analyzer/importers/other_files.h"
#include "analyzer/importers/whole_file.h"
#include "analyzer/reader/files/united_errors.h"
#include "analyzer/telemetry/gpu_history.h"
#include "analyzer/text/dump_printer.h"

namespace traintrace {
namespace {

struct ImportArguments {
  std::string kind;
  std::vector<std::string> files;
  std::string out;
  std::string host;
};

// One file that import writes, and what it is called in a folder.
struct Imported {
  std::string name;
  std::string bytes;
};

std::string target_of(const ImportArguments& arguments, const std::string& name) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(arguments.out, ignored);
  return folder ? arguments.out + "/" + name : arguments.out;
}

bool holds(const std::string& path, std::string_view bytes) {
  const Result<WholeFile> file = read_whole_file(path);
  return file && file->bytes() == bytes;
}

// Of `NAME.0.log`, `NAME.1.log` ..: the first that is not there, or holds just that already.  Each
// host's log is imported by a command of its own.
std::string free_name(const std::string& folder, const std::string& before,
                      std::string_view bytes) {
  std::error_code ignored;
  for (size_t number = 0;; ++number) {
    std::string name = fmt::format("{}.{}.log", before, number);
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    if (!std::filesystem::exists(path, ignored) || holds(path.string(), bytes)) {
      return name;
    }
  }
}

// Several need a folder.
int write(const std::vector<Imported>& files, const ImportArguments& arguments) {
  std::error_code ignored;
  if (files.size() > 1 && !std::filesystem::is_directory(arguments.out, ignored)) {
    return fail("these are several files: --out=FOLDER, which exists, instead of " + arguments.out);
  }
  for (const Imported& each : files) {
    const std::string target = target_of(arguments, each.name);
    if (target == "-") {
      return print(each.bytes);
    }
    if (const int status = write_output(target, each.bytes); status != 0) {
      return status;
    }
  }
  return 0;
}

// As text, written as it is made; called like a trace, which it must be in a folder of them.
int write_dump(const std::vector<ProcessTrace>& processes, const ImportArguments& arguments) {
  const std::string target = target_of(arguments, arguments.kind + ".trace");
  OutputFile file(target);
  print_dump(processes, {}, [&](std::string_view text) { file.write(text); });
  return file.close();
}

// Again as Kineto's files, with what is read of them and nothing else.
int import_profiles(const ImportArguments& arguments) {
  for (const std::string& path : arguments.files) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
      return fail(path + ": cannot be opened: there is no such file");
    }
  }
  const std::vector<std::string> profiles = profiles_alone(arguments.files);
  if (profiles.empty()) {
    return fail(arguments.files.front() + ": expected traces of PyTorch's profiler, and no others");
  }
  const Result<ProfiledRun> profiled = read_profiled_run(profiles);
  if (!profiled) {
    return fail(profiled.error());
  }
  std::vector<Imported> files;
  for (const Timeline& timeline : profiled->profile.timelines) {
    files.push_back(
        {fmt::format("kineto.{}.json", timeline.rank.value_or(0)), kineto_trace(timeline)});
  }
  return write(files, arguments);
}

// As they are, once they could be read: `analyze` looks for them beside traces.
int import_ras(const ImportArguments& arguments) {
  std::vector<Imported> files;
  for (const std::string& path : arguments.files) {
    const Result<WholeFile> file = read_whole_file(path);
    if (!file) {
      return fail(file.error());
    }
    const Result<Testimony> testimony = read_ras(file->bytes(), path);
    if (!testimony) {
      return fail(testimony.error());
    }
    const char* const suffix = file->bytes().find('{') == std::string_view::npos ? "txt" : "json";
    files.push_back(
        {fmt::format("nccl-ras.{}.{}", files.size(), suffix), std::string(file->bytes())});
  }
  return write(files, arguments);
}

// Texts of telemetry files: the JSON of Prometheus may be about several hosts.
Result<std::vector<std::string>> telemetry_texts(const std::string& kind, std::string_view bytes,
                                                 const std::string& path, const std::string& host) {
  if (kind == "prometheus") {
    return telemetry_of_prometheus(bytes, path, host);
  }
  Result<std::string> text = kind == "nvidia-smi"   ? telemetry_of_nvidia_smi(bytes, path, host)
                             : kind == "dcgmi-dmon" ? telemetry_of_dcgmi_dmon(bytes, path, host)
                                                    : telemetry_of_kernel_log(bytes, path, host);
  if (!text) {
    return text.error();
  }
  return std::vector<std::string>{std::move(*text)};
}

// What is to be found beside traces goes into a folder, which is made.  Empty: it is there, or a
// file was named that import itself wrote, or a new one.
std::string prepare_folder(const std::string& out) {
  std::error_code error;
  const std::filesystem::path path(out);
  if (out == "-" || std::filesystem::is_directory(path, error)) {
    return "";
  }
  if (std::filesystem::exists(path, error)) {
    return is_telemetry(out) ? "" : out + ": is there, and is no telemetry file: not overwritten";
  }
  if (path.extension() == ".log") {
    return "";
  }
  std::filesystem::create_directories(path, error);
  return error ? out + ": cannot be made: " + error.message() : "";
}

// As telemetry files, which `analyze` looks for beside traces.
int import_gpu_logs(const ImportArguments& arguments) {
  std::vector<std::string> all;
  for (const std::string& path : arguments.files) {
    const Result<WholeFile> file = read_whole_file(path);
    if (!file) {
      return fail(file.error());
    }
    Result<std::vector<std::string>> texts =
        telemetry_texts(arguments.kind, file->bytes(), path, arguments.host);
    if (!texts) {
      return fail(texts.error());
    }
    all.insert(all.end(), std::make_move_iterator(texts->begin()),
               std::make_move_iterator(texts->end()));
  }
  if (const std::string problem = prepare_folder(arguments.out); !problem.empty()) {
    return fail(problem);
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(arguments.out, ignored)) {
    std::vector<Imported> files;
    files.reserve(all.size());
    for (std::string& text : all) {
      files.push_back({"", std::move(text)});
    }
    return write(files, arguments);
  }
  for (std::string& text : all) {
    const std::string name = free_name(arguments.out, "telemetry." + arguments.kind, text);
    if (const int status = write({{name, std::move(text)}}, arguments); status != 0) {
      return status;
    }
  }
  return 0;
}

bool is_gpu_log(const std::string& kind) {
  return kind == "nvidia-smi" || kind == "kernel-log" || kind == "dcgmi-dmon" ||
         kind == "prometheus";
}

int import(const ImportArguments& arguments) {
  if (is_gpu_log(arguments.kind)) {
    return import_gpu_logs(arguments);
  }
  if (arguments.kind == "kineto") {
    return import_profiles(arguments);
  }
  if (arguments.kind == "nccl-ras") {
    return import_ras(arguments);
  }
  const TraceSet set = read_traces(arguments.files, {.events = false});
  for (const ReadError& error : told_errors(set)) {
    say(error);
  }
  for (const ProcessTrace& trace : set.processes) {
    const auto source = trace.facts.find("source");
    if (source == trace.facts.end() || source->second != arguments.kind) {
      return fail(trace.source + ": expected a file of " + arguments.kind);
    }
  }
  for (const ProcessTrace& trace : set.processes) {
    for (const ReadError& error : trace.errors) {
      say(error);
    }
  }
  return set.processes.empty() ? 2 : write_dump(set.processes, arguments);
}

}  // namespace

void declare_import(CLI::App& command, Invocation& invocation) {
  auto arguments = std::make_shared<ImportArguments>();
  command.add_option("KIND", arguments->kind, "kind of the files")
      ->required()
      ->check(CLI::IsMember({"flight-recorder", "kineto", "torch-snapshot", "rmm-csv", "nccl-ras",
                             "nvidia-smi", "kernel-log", "dcgmi-dmon", "prometheus"}));
  command.add_option("--host", arguments->host,
                     "host of the GPUs, where the log itself does not say it");
  command.add_option("FILE", arguments->files, "files, or folders of them")->required();
  keep_as_inputs(command, arguments->files);
  command
      .add_option("--out", arguments->out, "file to write, or folder to write it to; - is stdout")
      ->required();
  command.callback([arguments, &invocation] {
    invocation.status = supervised([&] { return import(*arguments); });
  });
}

}  // namespace traintrace
