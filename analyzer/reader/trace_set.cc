// All that the arguments of a command stand for, read.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "analyzer/importers/other_files.h"
#include "analyzer/importers/strange_files.h"
#include "analyzer/reader/files/brought.h"
#include "analyzer/reader/files/file_bytes.h"
#include "analyzer/reader/files/input_file.h"
#include "analyzer/reader/files/opened_inputs.h"
#include "analyzer/reader/files/pointer_file.h"
#include "analyzer/reader/files/read_stage.h"
#include "analyzer/reader/files/text_bytes.h"
#include "analyzer/reader/host_clocks.h"
#include "analyzer/reader/inputs.h"
#include "analyzer/reader/read_trace.h"
#include "analyzer/reader/same_process.h"
#include "analyzer/reader/sections/threads_file.h"
#include "analyzer/reader/silent_inputs.h"
#include "analyzer/text/dump_parser.h"
#include "analyzer/text/progress.h"
#include "format/pack.h"
#include "format/segments.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;

bool is_native(const std::string& path) {
  constexpr size_t kLook = 21;
  const std::string head = head_of(path, kLook);
  return head.size() < kLook ||
         head.starts_with(std::string_view(format::kMagic, sizeof format::kMagic)) ||
         head == "traintrace-pointer 1\n" || (head.find('\0') != head.npos && !is_dump_text(path));
}

// The number of the first one that is neither empty nor a remark.
uint64_t first_line(std::string_view text) {
  uint64_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const size_t word = text.find_first_not_of(" \t\r", begin);
    if (word < end && text[word] != '#') {
      return number;
    }
    begin = end + 1;
  }
  return number;
}

// Damage of a trace is told as such.
std::string kind_unless_ours(const std::string& path) {
  constexpr std::string_view kMagic(format::kMagic, sizeof format::kMagic);
  return head_of(path, kMagic.size()) == kMagic ? std::string() : strange_file_text(path);
}

ReadError of_no_known_kind(const std::string& path, const std::string& text) {
  const std::string kind = strange_file_text(path);
  if (!kind.empty()) {
    return {path, 0, kind, true};
  }
  const bool is_log = text.find('\0') == text.npos;
  return {path, 0,
          fmt::format("neither a trace nor the text of `traintrace dump`{}",
                      is_log ? "; of other text it reads lines of NCCL (NCCL_DEBUG, RAS), of "
                               "PyTorch's watchdogs and of torchrun, and there is none"
                             : ""),
          true};
}

void add_text(const std::string& path, TraceSet& set) {
  const std::optional<std::string> text = text_of_file(path, kMostSmallFileBytes);
  if (!text || text->size() == kMostSmallFileBytes) {
    set.errors.push_back({path, 0, "expected text of less than 256 MiB", true, false});
    return;
  }
  Result<DumpText> dump = parse_dump(*text, path);
  if (!dump && dump.error().offset == first_line(*text)) {  // not a word of it is ours
    set.errors.push_back(of_no_known_kind(path, *text));
    return;
  }
  if (!dump) {
    set.errors.push_back(dump.error());
    return;
  }
  if (dump->processes.empty()) {
    const std::string kind = strange_file_text(path);
    set.errors.push_back(
        {path, 0, kind.empty() ? "expected at least one process: there is none" : kind, true});
  }
  std::move(dump->processes.begin(), dump->processes.end(), std::back_inserter(set.processes));
}

// HOST.PID.STARTTIME, as all files of a process begin.
std::string name_of(const ProcessTrace& trace) {
  return fmt::format("{}.{}.{}", trace.host, trace.pid, trace.start_time);
}

bool is_collected(const ProcessTrace& trace) {
  const auto lies_in = [&](std::string_view ending) {
    return trace.source.find(std::string(ending) + "/") != trace.source.npos;
  };
  return lies_in(format::kPackSuffix) ||
         std::any_of(std::begin(kArchives), std::end(kArchives), lies_in);
}

bool runs_now(const ProcessTrace& trace) {
  return trace.running_now == true;
}

// A trace may be there as itself and as what was collected of it; that of a running process as its
// copy and as its memory.
bool is_twice(const ProcessTrace& a, const ProcessTrace& b) {
  return (is_collected(a) || is_collected(b) || (runs_now(a) && runs_now(b))) &&
         is_of_same_process(a, b);
}

// Finds a process among those that were read, without looking at all of them.
class Known {
 public:
  explicit Known(const TraceSet& set) : set_(set) {}

  // A pointer may lead to a trace that was named as well.
  bool has(const ProcessTrace& trace) {
    take_new();
    if (sources_.contains(trace.source)) {
      return true;
    }
    const auto [begin, end] = by_name_.equal_range(name_of(trace));
    return std::any_of(begin, end, [&](const auto& named) {
      return is_twice(set_.processes[named.second], trace);
    });
  }

 private:
  void take_new() {
    for (; taken_ < set_.processes.size(); ++taken_) {
      sources_.insert(set_.processes[taken_].source);
      by_name_.emplace(name_of(set_.processes[taken_]), taken_);
    }
  }

  const TraceSet& set_;
  size_t taken_ = 0;
  std::unordered_set<std::string> sources_;
  std::unordered_multimap<std::string, size_t> by_name_;
};

// The memory of a process that has ended is removed when its copy is complete, and old runs are
// cleaned up: what a folder listed may be gone a moment later.
bool is_gone(const std::string& path) {
  struct stat status = {};
  return lstat(place_of(path).c_str(), &status) != 0 && errno == ENOENT;
}

struct Reading {
  TraceSet set;
  bool any_gone = false;  // of what folders listed
};

void add_native(const std::string& path, const ReadOptions& options, const Inputs& inputs,
                Known& known, Reading& reading) {
  TraceSet& set = reading.set;
  Result<ProcessTrace> trace = read_trace(path, options);
  if (!trace && !inputs.named.contains(path) && is_gone(path)) {
    reading.any_gone = true;
    return;
  }
  if (!trace) {
    const std::optional<ReadError> not_here =
        trace.error().elsewhere ? std::nullopt : gone_from_here(path);
    set.errors.push_back(not_here ? *not_here : trace.error());
    if (const std::string kind = kind_unless_ours(path); !not_here && !kind.empty()) {
      set.errors.back().message = kind;
    }
    return;
  }
  if (!known.has(*trace)) {
    read_threads_file(*trace);
    if (options.as_read) {
      options.as_read(*trace);
    }
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

// Damaged, so that it says neither which rank it is of nor what that did.
bool says_nothing(const ProcessTrace& trace) {
  const auto variable = trace.facts.lower_bound("env.");
  const bool has_environment = variable != trace.facts.end() && variable->first.starts_with("env.");
  return !trace.errors.empty() && !has_environment && trace.communicators.empty();
}

// Pointers to other hosts whose traces have been collected since.
void forget_collected(TraceSet& set) {
  std::multimap<std::string, std::string> boots;  // by name of the trace
  for (const ProcessTrace& trace : set.processes) {
    if (!says_nothing(trace)) {
      boots.emplace(name_of(trace), trace.boot);
    }
  }
  const auto is_known = [&](const std::string& name, const std::string& boot) {
    const auto [begin, end] = boots.equal_range(name);
    return std::any_of(begin, end, [&](const auto& known) {
      return boot.empty() || known.second.empty() || known.second == boot;
    });
  };
  std::erase_if(set.errors, [&](const ReadError& error) {
    if (!error.elsewhere) {
      return false;
    }
    const fs::path stem = fs::path(error.elsewhere->path).stem();
    const std::string& boot = error.elsewhere->boot;
    return is_known(stem.string(), boot) || is_known(stem.stem().string(), boot);
  });
}

void sort_and_unite(std::vector<std::string>& paths) {
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
}

Reading read_once(std::span<const std::string> arguments, const ReadOptions& options) {
  Reading reading;
  TraceSet& set = reading.set;
  Inputs inputs = inputs_of(arguments, set.errors);
  set.errors.insert(set.errors.begin(), silent_inputs().begin(), silent_inputs().end());
  std::vector<std::string>& paths = inputs.traces;
  // The same trace may be named twice, by its folder and by itself.
  sort_and_unite(paths);
  const HostClocks clocks(paths);
  ReadOptions own = options;
  Progress progress(paths);
  Known known(set);
  for (const std::string& path : paths) {
    progress.next();
    read_stage(path, set.errors, [&] {
      if (is_native(path)) {
        own.booted = clocks.booted(path);
        add_native(path, own, inputs, known, reading);
      } else {
        add_text(path, set);
      }
    });
  }
  forget_collected(set);
  set.supporting = std::move(inputs.supporting);
  set.telemetry = std::move(inputs.telemetry);
  sort_and_unite(set.telemetry);
  if (set.processes.empty()) {
    add_others(inputs.others, set);
  } else {  // the same ranks once more
    for (OtherFile& file : inputs.others) {
      set.supporting.push_back(std::move(file.path));
    }
  }
  sort_and_unite(set.supporting);
  return reading;
}

}  // namespace

bool is_of_same_process(const ProcessTrace& a, const ProcessTrace& b) {
  constexpr TimeNs kSameMoment = 100'000;  // more than conversion makes of the same ticks
  return !a.boot.empty() && a.boot == b.boot && a.pid == b.pid && a.start_time == b.start_time &&
         a.host == b.host && std::abs(a.armed - b.armed) < kSameMoment;
}

TraceSet read_traces(std::span<const std::string> arguments, const ReadOptions& options) {
  Reading reading = read_once(arguments, options);
  // What took its place, the complete copy of a memory, may have been listed too early.
  TraceSet set = reading.any_gone ? read_once(arguments, options).set : std::move(reading.set);
  for (const ProcessTrace& trace : set.processes) {
    remember_input(trace.source);
  }
  for (const std::string& path : set.telemetry) {
    remember_input(path);
  }
  return set;
}

}  // namespace traintrace
