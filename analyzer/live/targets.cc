#include "analyzer/live/targets.h"

#include <unistd.h>

#include <algorithm>
#include <functional>

#include "analyzer/live/in_time.h"

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

}  // namespace

std::optional<std::string> trace_of_process(const ProcProcess& process) {
  for (const Mapping& mapping : process.mappings) {
    if (mapping.shared && mapping.path.ends_with(".trace")) {
      return reachable_path(process, mapping.path);
    }
  }
  return std::nullopt;
}

namespace {

bool shows_use_of_gpu(const Mapping& mapping) {
  return file_name(mapping.path).starts_with("libcuda.so") ||
         (mapping.shared && mapping.path.ends_with(".trace"));
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
  return std::any_of(process.mappings.begin(), process.mappings.end(), shows_use_of_gpu);
}

void keep_little(ProcProcess& process) {
  std::erase_if(process.mappings,
                [](const Mapping& mapping) { return !shows_use_of_gpu(mapping); });
  process.mappings.shrink_to_fit();
  process.module_maps = {};
  process.threads = {};
}

std::vector<ProcProcess> gpu_processes(std::chrono::steady_clock::time_point deadline) {
  std::vector<std::function<std::optional<ProcProcess>()>> works;
  for (const pid_t pid : all_processes()) {
    if (pid != getpid()) {
      works.emplace_back([pid] { return gpu_process(pid); });
    }
  }
  std::vector<ProcProcess> found;
  for (auto& process : in_time(std::move(works), deadline)) {
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
  trace.running_now = process.state != 'Z' && process.state != 'X';
  trace.facts["source"] = "attach";
  trace.facts["command-line"] = process.command_line;
  for (const auto& [name, value] : process.environment) {
    trace.facts["env." + name] = value;
  }
  return trace;
}

}  // namespace traintrace
