#include "analyzer/reader/files/trace_memory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "analyzer/isolation/ask_each.h"
#include "analyzer/reader/this_machine.h"
#include "format/segments.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;
using format::FileHeader;

std::optional<FileHeader> header_of(const TraceBytes& file) {
  std::byte bytes[sizeof(FileHeader)];
  if (file.read(0, bytes) < sizeof bytes) {
    return std::nullopt;
  }
  const auto header = value_from<FileHeader>(bytes);
  const bool is_trace = std::memcmp(header.magic, format::kMagic, sizeof header.magic) == 0;
  return is_trace && header.version >= 4 && header.version <= format::kVersion
             ? std::optional(header)
             : std::nullopt;
}

template <size_t N>
std::string bounded_text(const char (&text)[N]) {
  return {text, std::find(text, text + N, '\0')};
}

bool is_of_this_boot(const FileHeader& header) {
  const auto boot = boot_id();
  return boot && (*boot)[0] == header.boot_id[0] && (*boot)[1] == header.boot_id[1];
}

// A trace may name any path: what is there must be the memory of the same process.
std::optional<TraceBytes> open_memory(const std::string& path, const FileHeader& copy) {
  Result<TraceBytes> file = TraceBytes::open(path);
  const auto header = file ? header_of(*file) : std::nullopt;
  if (!header || header->pid != copy.pid || header->start_time != copy.start_time ||
      std::memcmp(header->boot_id, copy.boot_id, sizeof copy.boot_id) != 0) {
    return std::nullopt;
  }
  return std::move(*file);
}

// "/proc/4711/root" of "/proc/4711/root/job/x.trace": what the file says is of that root.  Empty:
// of ours.
std::string root_before(const std::string& path) {
  constexpr std::string_view kProc = "/proc/", kRoot = "/root/";
  const size_t end =
      path.starts_with(kProc) ? path.find_first_not_of("0123456789", kProc.size()) : path.npos;
  return end != path.npos && path.compare(end, kRoot.size(), kRoot) == 0
             ? path.substr(0, end + kRoot.size() - 1)
             : "";
}

// Of what the file at `copy` is a copy.
std::string memory_path(const FileHeader& header, const std::string& copy) {
  std::string path = bounded_text(header.memory_path);
  if (path.empty() && header.keeper_descriptor >= 0) {
    path = "/proc/" + std::to_string(header.keeper_pid) + "/fd/" +
           std::to_string(header.keeper_descriptor);
  }
  return path.empty() ? path : root_before(copy) + path;
}

bool may_have_memory(const FileHeader& header) {
  return header.copy_state == format::kPartial && is_of_this_boot(header);
}

std::string whole_path(const std::string& folder) {
  std::error_code problem;
  return fs::weakly_canonical(fs::absolute(folder, problem), problem).string();
}

// Where folders are that traces name, by name.  Any of them may lie on a file server that is gone,
// and it may be anybody's: one that does not answer is not among these.
std::map<std::string, std::string> resolved(std::set<std::string> names) {
  constexpr AskLimits kLimits = {std::chrono::seconds(1), 4};
  return ask_each(std::move(names), kLimits, [](const std::string& name) {
    std::error_code ignored;
    return fs::weakly_canonical(name, ignored).string();
  });
}

// Traces by the folder that they name.
using ByFolder = std::map<std::string, std::vector<std::string>>;

// The traces in `place` that are `right`.
template <class Right>
void add_traces_in(const fs::path& place, Right right, ByFolder& traces) {
  std::error_code problem;
  for (fs::directory_iterator entry(place, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    if (entry->path().extension() != format::kTraceSuffix) {
      continue;
    }
    const Result<TraceBytes> file = TraceBytes::open(entry->path().string());
    const auto header = file ? header_of(*file) : std::nullopt;
    if (header && right(*header)) {
      traces[bounded_text(header->folder)].push_back(entry->path().string());
    }
  }
}

// Those that were to lie in this folder, whatever links lead there; sorted.
std::vector<std::string> of_folder(const std::string& folder, const ByFolder& traces) {
  std::error_code ignored;
  const std::string typed = fs::absolute(folder, ignored).lexically_normal().string();
  const std::string wanted = traces.empty() ? "" : whole_path(folder);
  std::set<std::string> others;
  for (const auto& [name, paths] : traces) {
    if (name != wanted && name != typed) {
      others.insert(name);
    }
  }
  const std::map<std::string, std::string> real = resolved(others);
  std::vector<std::string> found;
  for (const auto& [name, paths] : traces) {
    const auto there = real.find(name);
    if (there == real.end() ? !others.contains(name) : there->second == wanted) {
      found.insert(found.end(), paths.begin(), paths.end());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

Result<TraceBytes> open_newest(const std::string& path) {
  Result<TraceBytes> file = TraceBytes::open(path);
  const auto header = file ? header_of(*file) : std::nullopt;
  // What was collected is as it was then.
  if (!header || file->is_within() || !may_have_memory(*header)) {
    return file;
  }
  if (auto memory = open_memory(memory_path(*header, path), *header)) {
    return std::move(*memory).named(path);
  }
  // The process may have ended since, and the copy been completed.
  return TraceBytes::open(path);
}

std::vector<std::string> memories_not_copied(const std::string& folder) {
  ByFolder traces;
  std::error_code problem;
  for (fs::directory_iterator user("/dev/shm", problem), end; !problem && user != end;
       user.increment(problem)) {
    if (user->path().filename().string().starts_with("traintrace-")) {
      add_traces_in(
          user->path(),
          [](const FileHeader& header) { return header.ready == 1 && header.copy_path[0] == '\0'; },
          traces);
    }
  }
  return of_folder(folder, traces);
}

std::vector<std::string> other_folders() {
  std::vector<std::string> found;
  for (const char* const base : {"/tmp", "/var/tmp"}) {
    std::string folder = fmt::format("{}/traintrace-{}", base, geteuid());
    struct stat status = {};
    if (lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
        status.st_uid == geteuid()) {
      found.push_back(std::move(folder));
    }
  }
  return found;
}

std::vector<std::string> copies_in_other_folders(const std::string& folder) {
  ByFolder traces;
  const std::string itself = whole_path(folder);
  for (const std::string& other : other_folders()) {
    if (other != itself) {
      add_traces_in(
          other, [](const FileHeader&) { return true; }, traces);
    }
  }
  return of_folder(folder, traces);
}

std::string other_folders_with_traces() {
  std::string names;
  for (const std::string& folder : other_folders()) {
    std::error_code ignored;
    const fs::directory_iterator entries(folder, ignored);
    if (std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
          return entry.path().extension() == format::kTraceSuffix;
        })) {
      names += (names.empty() ? "" : " ") + folder;
    }
  }
  return names;
}

}  // namespace traintrace
