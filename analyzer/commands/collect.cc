// traintrace collect: this host's traces, packed into a shared folder.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "analyzer/collect/pack_trace.h"
#include "analyzer/commands/command.h"
#include "analyzer/isolation/stage.h"
#include "analyzer/reader/files/pointer_file.h"
#include "analyzer/reader/files/trace_memory.h"
#include "analyzer/reader/silent_inputs.h"
#include "analyzer/text/sizes.h"
#include "analyzer/text/words.h"
#include "format/pack.h"
#include "format/segments.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;

struct CollectArguments {
  std::vector<std::string> traces;
  std::string to;
  std::string ring = "all";
};

std::string this_host() {
  utsname names = {};
  return uname(&names) == 0 ? names.nodename : "this host";
}

struct Found {
  std::set<std::string> traces;   // on this host
  std::set<std::string> pointed;  // of these: that a pointer names
  size_t elsewhere = 0;           // pointers to other hosts
  std::vector<ReadError> errors;
};

void add_trace(const std::string& path, Found& found) {
  if (const auto pointer = read_pointer_file(path); !pointer) {
    found.traces.insert(path);
  } else if (*pointer) {
    found.traces.insert(**pointer);
    found.pointed.insert(**pointer);
  } else if (pointer->error().elsewhere) {
    ++found.elsewhere;
  } else {
    found.errors.push_back(pointer->error());
  }
}

void add_folder(const std::string& folder, Found& found) {
  std::error_code problem;
  std::vector<std::string> paths;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const fs::path extension = entry->path().extension();
    if (extension == format::kTraceSuffix || extension == ".pointer") {
      paths.push_back(entry->path().string());
    }
  }
  take_out_silent_files(paths);
  for (const std::string& path : paths) {
    add_trace(path, found);
  }
  for (const std::string& memory : memories_not_copied(folder)) {
    found.traces.insert(memory);
  }
  for (const std::string& copy : copies_in_other_folders(folder)) {
    found.traces.insert(copy);
  }
  const bool is_missing = problem == std::errc::no_such_file_or_directory;
  if (problem && !is_missing && found.traces.empty()) {
    found.errors.push_back({folder, 0, "cannot be listed: " + problem.message(), true});
  }
}

Found find_all(const std::vector<std::string>& arguments) {
  Found found;
  for (const std::string& argument : arguments) {
    std::error_code ignored;
    if (fs::is_directory(argument, ignored) || !fs::exists(argument, ignored)) {
      add_folder(argument, found);
    } else {
      add_trace(argument, found);
    }
  }
  found.errors.insert(found.errors.begin(), silent_inputs().begin(), silent_inputs().end());
  return found;
}

// The folder that was named first: where it holds pointers it is the shared one.
std::string target_of(const CollectArguments& arguments) {
  if (!arguments.to.empty()) {
    return arguments.to;
  }
  std::error_code ignored;
  const std::string& first = arguments.traces.front();
  return fs::is_regular_file(first, ignored) ? fs::path(first).parent_path().string() : first;
}

// "all", "none" or how long before the newest record.
std::optional<RingPart> ring_part(const std::string& text) {
  if (text == "all") {
    return RingPart{};
  }
  if (text == "none") {
    return RingPart{0};
  }
  const auto last = parse_duration(text);
  return last && *last > 0 ? std::optional(RingPart{*last}) : std::nullopt;
}

// Why no pack can be written there; empty: it can.
std::string problem_of(const std::string& folder) {
  std::error_code problem;
  if (fs::create_directories(folder, problem)) {
    fs::permissions(folder, fs::perms::owner_all, problem);
  }
  if (!problem && access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    problem.assign(errno, std::generic_category());
  }
  return problem ? problem.message() : "";
}

// Of an argument that is no folder, or an empty one.
std::string no_traces_in(const std::string& name) {
  const std::string others = other_folders_with_traces();
  return fmt::format("no traces of {} on this host: name the folder that TRAINTRACE_DIR named{}",
                     name, others.empty() ? "" : "; there are traces of other jobs in " + others);
}

struct Collected {
  size_t processes = 0;
  size_t before = 0;              // of whose traces only the packs are left
  std::vector<std::string> gone;  // pointers of a host of this name lead to them
  std::vector<ReadError> moved;   // since they were listed, as a memory is once it is copied
  uint64_t bytes = 0;
  bool failed = false;
};

// Collected before it was removed, or on the host of this name that has it.
bool has_pack(const std::string& folder, const std::string& trace) {
  std::error_code ignored;
  return fs::exists(fs::path(folder) / fs::path(trace).stem().concat(format::kPackSuffix), ignored);
}

void pack_all(const Found& found, const std::string& folder, const RingPart& ring,
              Collected& collected) {
  for (const std::string& trace : found.traces) {
    const bool whole = run_stage("pack " + trace, [&] {
      const Result<Packed> packed = pack_trace(trace, folder, ring);
      if (packed) {
        ++collected.processes;
        collected.bytes += packed->bytes;
      } else if (std::error_code ignored;
                 found.pointed.contains(trace) && !fs::exists(trace, ignored)) {
        if (has_pack(folder, trace)) {
          ++collected.before;
        } else {
          collected.failed = true;
          collected.gone.push_back(trace);
        }
      } else if (std::error_code ignored; !fs::exists(trace, ignored)) {
        collected.moved.push_back(packed.error());
      } else if (!packed.error().not_begun) {
        collected.failed = true;
        say(packed.error());
      }
    });
    collected.failed = collected.failed || !whole;
  }
}

// What a keeper moved meanwhile is under its final name now.
void follow_moved(const std::vector<std::string>& arguments, const Found& before,
                  const std::string& folder, const RingPart& ring, Collected& collected) {
  const std::vector<ReadError> moved = std::exchange(collected.moved, {});
  if (moved.empty()) {
    return;
  }
  Found now = find_all(arguments);
  std::erase_if(now.traces,
                [&](const std::string& trace) { return before.traces.contains(trace); });
  pack_all(now, folder, ring, collected);
  if (now.traces.size() < moved.size() || !collected.moved.empty()) {
    collected.failed = true;
    for (const ReadError& error : moved) {
      say(error);
    }
  }
}

// Older pointers do not tell hosts apart that are all called "localhost".
void tell_gone(const std::vector<std::string>& gone) {
  if (!gone.empty()) {
    const bool one = gone.size() == 1;
    say({fs::path(gone.front()).parent_path().string(), 0,
         fmt::format(
             "{} trace{} of {} {} not here: removed, or in the private /tmp of a job, or on "
             "another host of that name",
             gone.size(), one ? "" : "s", this_host(), one ? "is" : "are"),
         true});
  }
}

int tell(const Found& found, Collected collected, const std::string& traces,
         const std::string& folder) {
  for (const ReadError& error : found.errors) {
    say(error);
    collected.failed = collected.failed || is_silent_file(error.file);
  }
  tell_gone(collected.gone);
  if (collected.processes != 0) {
    print(fmt::format("{}: collected {} process{} into {} ({})\n", this_host(), collected.processes,
                      collected.processes == 1 ? "" : "es", folder,
                      file_size_text(collected.bytes)));
  } else if (!collected.failed && found.elsewhere != 0 && collected.before == 0) {
    print(fmt::format("{}: nothing to collect: all {} traces are on other hosts\n", this_host(),
                      found.elsewhere));
  }
  if (collected.processes == 0 && collected.before != 0) {
    print(fmt::format("{}: nothing more to collect: {} pack{} in {} already\n", this_host(),
                      collected.before, collected.before == 1 ? " is" : "s are", folder));
  }
  const bool nothing = collected.processes == 0 && collected.before == 0 && found.elsewhere == 0;
  if (nothing && !collected.failed && found.errors.empty()) {
    return fail(no_traces_in(traces));
  }
  return collected.failed || nothing ? 2 : 0;
}

int collect(CollectArguments arguments) {
  if (arguments.traces.empty()) {
    arguments.traces.emplace_back("traintrace");
  }
  const auto ring = ring_part(arguments.ring);
  if (!ring) {
    return fail("--ring=" + arguments.ring + ": write all, none, or a time as 30s");
  }
  std::vector<std::string> to = {target_of(arguments)};
  take_out_silent(to);
  if (to.empty()) {
    return fail(silent_inputs().back());
  }
  const Found found = find_all(arguments.traces);
  const std::string folder = target_of(arguments);
  const std::string problem = found.traces.empty() ? "" : problem_of(folder);
  if (!problem.empty()) {
    return fail(fmt::format("packs cannot be written to {}: {}; name another folder: --to=FOLDER",
                            folder, problem));
  }
  Collected collected;
  pack_all(found, folder, *ring, collected);
  follow_moved(arguments.traces, found, folder, *ring, collected);
  return tell(found, std::move(collected), fmt::format("{}", fmt::join(arguments.traces, " ")),
              folder);
}

}  // namespace

void declare_collect(CLI::App& command, Invocation& invocation) {
  auto arguments = std::make_shared<CollectArguments>();
  add_traces(command, arguments->traces);
  command.add_option("--to", arguments->to,
                     "folder for the packed traces (default: that of the traces)");
  command
      .add_option("--ring", arguments->ring,
                  "records to pack: all, none, or those of the last seconds, as 30s")
      ->capture_default_str();
  command.callback([arguments, &invocation] {
    invocation.status = supervised([&] { return collect(*arguments); });
  });
}

}  // namespace traintrace
