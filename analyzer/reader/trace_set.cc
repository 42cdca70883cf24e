// What the arguments of a command stand for.
#include <algorithm>
#include <filesystem>
#include <iterator>

#include "analyzer/importers/other_files.h"
#include "analyzer/importers/testimony.h"
#include "analyzer/reader/file_bytes.h"
#include "analyzer/reader/host_clocks.h"
#include "analyzer/reader/input_file.h"
#include "analyzer/reader/read_stage.h"
#include "analyzer/reader/read_trace.h"
#include "analyzer/reader/threads_file.h"
#include "analyzer/reader/trace_memory.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultFolder = "traintrace";

struct Inputs {
  std::vector<std::string> traces;
  std::vector<OtherFile> others;
  std::vector<std::string> supporting;
};

// Sorted, so that nothing depends on the order in which a folder lists its files.
void add_folder(const fs::path& folder, Inputs& inputs, TraceSet& set) {
  std::error_code problem;
  std::vector<std::string> traces;
  std::vector<OtherFile> others;
  bool any_of_others = false;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const fs::path extension = entry->path().extension();
    std::error_code ignored;
    if (extension == ".trace" || extension == ".pointer") {
      traces.push_back(entry->path().string());
    } else if (entry->is_regular_file(ignored)) {
      const std::string path = entry->path().string();
      may_testify(path) ? inputs.supporting.push_back(path) : others.push_back({path});
    }
  }
  for (std::string& memory : memories_not_copied(folder.string())) {
    traces.push_back(std::move(memory));
  }
  if (problem && traces.empty()) {
    set.errors.push_back({folder.string(), 0, "cannot be listed: " + problem.message(), true});
    return;
  }
  if (!traces.empty()) {
    std::erase_if(others, [](const OtherFile& file) { return !may_be_flight_dump(file.path); });
    any_of_others = true;
  } else {
    any_of_others = std::any_of(others.begin(), others.end(), [](const OtherFile& file) {
      return may_be_other_tools(file.path);
    });
    if (!any_of_others && inputs.supporting.empty()) {
      set.errors.push_back({folder.string(), 0,
                            "expected files *.trace in this folder, or dumps of another tool",
                            true});
    }
  }
  std::move(traces.begin(), traces.end(), std::back_inserter(inputs.traces));
  if (any_of_others) {
    std::move(others.begin(), others.end(), std::back_inserter(inputs.others));
  }
}

bool is_native(const std::string& path) {
  constexpr size_t kLook = 21;
  const std::string head = head_of(path, kLook);
  return head.size() < kLook ||
         head.starts_with(std::string_view(format::kMagic, sizeof format::kMagic)) ||
         head == "traintrace-pointer 1\n" || head.find('\0') != head.npos;
}

void add_text(const std::string& path, TraceSet& set) {
  const std::optional<std::string> text = bytes_of_file(path);
  if (!text || text->size() == kMostSmallFileBytes) {
    set.errors.push_back({path, 0, "expected text of less than 256 MiB", true, false});
    return;
  }
  Result<DumpText> dump = parse_dump(*text, path);
  if (!dump) {
    set.errors.push_back(dump.error());
    return;
  }
  std::move(dump->processes.begin(), dump->processes.end(), std::back_inserter(set.processes));
}

void add_native(const std::string& path, const ReadOptions& options, TraceSet& set) {
  Result<ProcessTrace> trace = read_trace(path, options);
  if (!trace) {
    set.errors.push_back(trace.error());
    return;
  }
  // A pointer may lead to a trace that was named as well.
  const bool known =
      std::any_of(set.processes.begin(), set.processes.end(),
                  [&](const ProcessTrace& other) { return other.source == trace->source; });
  if (!known) {
    read_threads_file(*trace);
    set.processes.push_back(std::move(*trace));
  }
}

void add_others(std::vector<OtherFile>& files, TraceSet& set) {
  const auto by_path = [](const OtherFile& a, const OtherFile& b) {
    return std::pair(a.path, !a.named) < std::pair(b.path, !b.named);
  };
  std::sort(files.begin(), files.end(), by_path);
  files.erase(std::unique(files.begin(), files.end(),
                          [](const OtherFile& a, const OtherFile& b) { return a.path == b.path; }),
              files.end());
  TraceSet others;
  if (!run_stage("read files of other tools", [&] { others = read_other_files(files); })) {
    std::transform(files.begin(), files.end(), std::back_inserter(others.errors),
                   [](const OtherFile& file) { return internal_read_error(file.path); });
  }
  std::move(others.processes.begin(), others.processes.end(), std::back_inserter(set.processes));
  std::move(others.errors.begin(), others.errors.end(), std::back_inserter(set.errors));
}

}  // namespace

TraceSet read_traces(std::span<const std::string> arguments, const ReadOptions& options) {
  TraceSet set;
  Inputs inputs;
  const std::string standard[] = {kDefaultFolder};
  for (const std::string& argument :
       arguments.empty() ? std::span<const std::string>(standard) : arguments) {
    std::error_code ignored;
    if (fs::is_directory(argument, ignored) || !memories_not_copied(argument).empty()) {
      add_folder(argument, inputs, set);
    } else if (may_testify(argument)) {
      inputs.supporting.push_back(argument);
    } else if (may_be_other_tools(argument)) {
      inputs.others.push_back({argument, true});
    } else {
      inputs.traces.push_back(argument);
    }
  }
  std::vector<std::string>& paths = inputs.traces;
  // The same trace may be named twice, by its folder and by itself.
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  const HostClocks clocks(paths);
  ReadOptions own = options;
  for (const std::string& path : paths) {
    read_stage(path, set.errors, [&] {
      if (is_native(path)) {
        own.booted = clocks.booted(path);
        add_native(path, own, set);
      } else {
        add_text(path, set);
      }
    });
  }
  set.supporting = std::move(inputs.supporting);
  if (set.processes.empty()) {
    add_others(inputs.others, set);
  } else {  // the same ranks once more
    for (OtherFile& file : inputs.others) {
      set.supporting.push_back(std::move(file.path));
    }
  }
  std::sort(set.supporting.begin(), set.supporting.end());
  set.supporting.erase(std::unique(set.supporting.begin(), set.supporting.end()),
                       set.supporting.end());
  return set;
}

}  // namespace traintrace
