#include "analyzer/live/targets.h"

#include <unistd.h>

#include <algorithm>

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

}  // namespace

std::optional<std::string> trace_of_process(const ProcProcess& process) {
  for (const Mapping& mapping : process.mappings) {
    if (mapping.shared && mapping.path.ends_with(".trace")) {
      return reachable_path(process, mapping.path);
    }
  }
  return std::nullopt;
}

bool uses_gpu(const ProcProcess& process) {
  return std::any_of(process.mappings.begin(), process.mappings.end(), [](const Mapping& mapping) {
    return file_name(mapping.path).starts_with("libcuda.so") ||
           (mapping.shared && mapping.path.ends_with(".trace"));
  });
}

std::vector<ProcProcess> gpu_processes() {
  std::vector<ProcProcess> found;
  for (const pid_t pid : all_processes()) {
    Result<ProcProcess> process = pid == getpid() ? ReadError{} : read_process(pid);
    if (process && uses_gpu(*process)) {
      found.push_back(std::move(*process));
    }
  }
  return found;
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
