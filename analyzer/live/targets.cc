#include "analyzer/live/targets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include "analyzer/isolation/ask_each.h"
#include "analyzer/live/in_time.h"
#include "analyzer/live/process_memory.h"
#include "analyzer/reader/this_machine.h"
#include "format/trace_format.h"

namespace traintrace {
namespace {

std::string_view file_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return path.substr(slash == path.npos ? 0 : slash + 1);
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::string rank_of(const ProcProcess& process) {
  const auto rank = process.environment.find("RANK");
  return rank == process.environment.end() ? "" : rank->second;
}

// A loader's worker, say: a child of a rank that has what the rank had when it was forked.
bool is_helper(const ProcProcess& process, const std::vector<ProcProcess>& all) {
  const pid_t parent = parent_of(process.pid);
  return std::any_of(all.begin(), all.end(), [&](const ProcProcess& other) {
    if (other.pid != parent) {
      return false;
    }
    const auto trace = trace_of_process(process);
    const auto of_other = trace_of_process(other);
    return trace ? of_other && is_same_file(*trace, *of_other)
                 : !rank_of(process).empty() && rank_of(process) == rank_of(other);
  });
}

constexpr std::string_view kMemory = "/memfd:";
constexpr std::string_view kNameless = ".trace (deleted)";

bool is_trace(const Mapping& mapping) {
  return mapping.shared &&
         (mapping.path.ends_with(".trace") ||
          (mapping.path.starts_with(kMemory) && mapping.path.ends_with(kNameless)));
}

std::optional<format::FileHeader> header_in(const ProcProcess& process, const Mapping& mapping) {
  const OtherMemory memory(process.pid);
  format::FileHeader header = {};
  const bool is_trace = memory.load(mapping.begin, header) &&
                        std::memcmp(header.magic, format::kMagic, sizeof header.magic) == 0;
  return is_trace ? std::optional(header) : std::nullopt;
}

// The disk of a copy, or its server, may be gone: the memory is there all the same.
bool is_readable(const std::string& path) {
  return answers_soon(path) && access(path.c_str(), R_OK) == 0;
}

// A memory without name: the kernel shows it to root by the mapping, to its user by the keeper's
// descriptor; else there is the copy that the keeper makes each second.
std::optional<std::string> path_of_nameless(const ProcProcess& process, const Mapping& mapping) {
  std::string by_mapping =
      fmt::format("/proc/{}/map_files/{:x}-{:x}", process.pid, mapping.begin, mapping.end);
  const int tried = open(by_mapping.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (tried >= 0) {
    close(tried);
    return by_mapping;
  }
  const auto header = header_in(process, mapping);
  if (!header) {
    return std::nullopt;
  }
  // Its number is that of the process's own PID namespace.
  const std::string root =
      process.same_pid_namespace ? std::string() : fmt::format("/proc/{}/root", process.pid);
  std::string by_keeper =
      fmt::format("{}/proc/{}/fd/{}", root, header->keeper_pid, header->keeper_descriptor);
  if (header->keeper_descriptor >= 0 && is_readable(by_keeper)) {
    return by_keeper;
  }
  const auto end = std::find(header->copy_path, std::end(header->copy_path), '\0');
  return path_from_here(process, std::string(header->copy_path, end));
}

// It maps the memory of the process that it copies for.
bool is_keeper(const ProcProcess& process) {
  const auto mapping = std::find_if(process.mappings.begin(), process.mappings.end(), is_trace);
  const auto header =
      mapping == process.mappings.end() ? std::nullopt : header_in(process, *mapping);
  return header && header->keeper_descriptor >= 0 && header->keeper_pid == process.inner_pid;
}

}  // namespace

namespace {

// Where the kernel and the process itself say that the trace is.
struct Recorded {
  std::string copy;    // as we reach it; empty: there is none, or it may not be read
  std::string folder;  // TRAINTRACE_DIR, as we reach it; empty: not known
  std::string memory;  // its mapping
};

template <size_t N>
std::string reached(const ProcProcess& process, const char (&text)[N]) {
  const std::string path(text, std::find(text, text + N, '\0'));
  return path.empty() ? path : path_from_here(process, path);
}

std::optional<Recorded> recorded(const ProcProcess& process) {
  const auto mapping = std::find_if(process.mappings.begin(), process.mappings.end(), is_trace);
  if (mapping == process.mappings.end()) {
    return std::nullopt;
  }
  Recorded paths;
  const auto header = header_in(process, *mapping);
  if (header && header->pid == process.inner_pid) {
    paths.copy = reached(process, header->copy_path);
    paths.folder = reached(process, header->folder);
  }
  if (!is_readable(paths.copy)) {
    paths.copy.clear();
  }
  if (paths.copy.empty()) {
    const auto memory = mapping->path.starts_with(kMemory) ? path_of_nameless(process, *mapping)
                                                           : reachable_path(process, mapping->path);
    if (!memory) {
      return std::nullopt;
    }
    paths.memory = *memory;
  }
  return paths;
}

}  // namespace

// The copy in its folder, which leads to the memory: what lies beside it belongs to it, too.
std::optional<std::string> trace_of_process(const ProcProcess& process) {
  const std::optional<Recorded> paths = recorded(process);
  if (!paths) {
    return std::nullopt;
  }
  return paths->copy.empty() ? paths->memory : paths->copy;
}

std::optional<std::string> input_of_process(const ProcProcess& process) {
  const std::optional<Recorded> paths = recorded(process);
  if (!paths) {
    return std::nullopt;
  }
  if (!paths->copy.empty()) {
    return std::filesystem::path(paths->copy).parent_path().string();
  }
  // Beside a memory lie those of all jobs.  Who names its folder finds it as long as both see one
  // /dev/shm.
  const bool leads_there =
      process.same_mount_namespace && !paths->folder.empty() && answers_soon(paths->folder + "/");
  return leads_there ? paths->folder : paths->memory;
}

namespace {

bool shows_use_of_gpu(const Mapping& mapping) {
  return file_name(mapping.path).starts_with("libcuda.so") || is_trace(mapping);
}

std::optional<ProcProcess> gpu_process(pid_t pid) {
  Result<ProcProcess> process = read_process(pid);
  if (!process || !uses_gpu(*process)) {
    return std::nullopt;
  }
  keep_little(*process);
  return std::move(*process);
}

}  // namespace

bool uses_gpu(const ProcProcess& process) {
  return std::any_of(process.mappings.begin(), process.mappings.end(), shows_use_of_gpu) &&
         !is_keeper(process);
}

void keep_little(ProcProcess& process) {
  std::erase_if(process.mappings,
                [](const Mapping& mapping) { return !shows_use_of_gpu(mapping); });
  process.mappings.shrink_to_fit();
  process.module_maps = {};
  process.threads = {};
}

std::vector<ProcProcess> gpu_processes(ServedTime& time, ServedTime::Clock::duration limit) {
  std::vector<std::function<std::optional<ProcProcess>()>> works;
  for (const pid_t pid : all_processes()) {
    if (pid != getpid()) {
      works.emplace_back([pid] { return gpu_process(pid); });
    }
  }
  std::vector<ProcProcess> found;
  for (auto& process : in_time(std::move(works), time, limit)) {
    if (process && *process) {
      found.push_back(std::move(**process));
    }
  }
  std::erase_if(found, [&](const ProcProcess& process) { return is_helper(process, found); });
  return found;
}

std::map<pid_t, std::vector<pid_t>> children_of(const std::vector<pid_t>& pids) {
  constexpr size_t kMostChildren = 64;
  std::map<pid_t, std::vector<pid_t>> children;
  for (const pid_t pid : all_processes()) {
    const pid_t parent = parent_of(pid);
    if (std::binary_search(pids.begin(), pids.end(), parent) &&
        !std::binary_search(pids.begin(), pids.end(), pid) &&
        children[parent].size() < kMostChildren) {
      children[parent].push_back(pid);
    }
  }
  return children;
}

ProcessTrace unrecorded_trace(const ProcProcess& process, TimeNs now) {
  ProcessTrace trace;
  trace.source = "/proc/" + std::to_string(process.pid);
  trace.host = host_name();
  trace.pid = process.pid;
  trace.start_time = process.start_time;
  trace.armed = now;
  trace.last_alive = now;
  trace.running_now = !process.has_ended();
  trace.halt = halt_of(process.pid);
  trace.facts["source"] = "attach";
  trace.facts["command-line"] = process.command_line;
  if (!uses_gpu(process)) {
    trace.facts["gpu-libraries"] = "none";
  }
  for (const auto& [name, value] : process.environment) {
    trace.facts["env." + name] = value;
  }
  return trace;
}

}  // namespace traintrace
