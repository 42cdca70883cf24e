#include "analyzer/live/proc_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "analyzer/reader/files/file_bytes.h"
#include "format/secrets.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;

std::string proc_path(pid_t pid, const char* name) {
  return fmt::format("/proc/{}/{}", pid, name);
}

// What the process itself decides the length of is read up to here; the kernel's own files are
// shorter.
constexpr size_t kMostProcBytes = 1 << 20;
constexpr size_t kMostMapsBytes = 16 << 20;  // as many mappings as it may have by default

std::string contents(const std::string& path, size_t most = kMostProcBytes) {
  return bytes_of_file(path, most).value_or("");
}

std::string link_target(const std::string& path) {
  std::error_code problem;
  return fs::read_symlink(path, problem).string();
}

// Names may contain anything, blanks and parentheses too: the fields begin behind the last ')'.
std::vector<std::string> fields_of_stat(const std::string& stat) {
  std::vector<std::string> fields;
  const size_t end = stat.rfind(')');
  if (end == stat.npos) {
    return fields;
  }
  std::istringstream rest(stat.substr(end + 1));
  std::copy(std::istream_iterator<std::string>(rest), {}, std::back_inserter(fields));
  return fields;
}

std::string kept_value(format::Kept kept, std::string value) {
  if (kept == format::Kept::Name) {
    return format::kNameOnly;
  }
  if (value.size() > format::kMostText) {
    return format::kTooLong;
  }
  value.resize(format::mask_value(kept, value.data(), value.size()));
  return value;
}

// "KEY=VALUE\0KEY=VALUE\0": what a trace would keep of it.
std::map<std::string, std::string> environment_of(const std::string& bytes) {
  std::map<std::string, std::string> environment;
  std::istringstream in(bytes);
  for (std::string entry; std::getline(in, entry, '\0');) {
    const size_t equals = entry.find('=');
    const format::Kept kept = equals == entry.npos ? format::Kept::Nothing
                                                   : format::kept_of_variable(entry.data(), equals);
    if (kept != format::Kept::Nothing) {
      environment.try_emplace(entry.substr(0, equals), kept_value(kept, entry.substr(equals + 1)));
    }
  }
  return environment;
}

std::string command_line_of(std::string arguments) {
  if (arguments.size() > format::kMostText) {
    arguments.resize(format::kMostText);
    arguments.resize(arguments.rfind('\0') + 1);  // npos + 1: none fits
  }
  arguments.resize(format::mask_secrets(arguments.data(), arguments.size()));
  std::replace(arguments.begin(), arguments.end(), '\0', ' ');
  return arguments;
}

// "7f01-7f02 r-xp 00001000 08:01 1234    /usr/lib/libc.so.6"
std::optional<Mapping> mapping_of(std::string_view line) {
  Mapping mapping;
  const char* const end = line.data() + line.size();
  auto at = std::from_chars(line.data(), end, mapping.begin, 16);
  at = at.ptr < end ? std::from_chars(at.ptr + 1, end, mapping.end, 16) : at;
  if (at.ec != std::errc() || end - at.ptr < 6) {
    return std::nullopt;
  }
  mapping.executable = at.ptr[3] == 'x';
  mapping.shared = at.ptr[4] == 's';
  at = std::from_chars(at.ptr + 6, end, mapping.offset, 16);
  std::string_view rest(at.ptr, static_cast<size_t>(end - at.ptr));
  for (int skipped = 0; skipped < 2; ++skipped) {  // device, inode
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    rest.remove_prefix(std::min(rest.find(' '), rest.size()));
  }
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  mapping.path = rest;
  return mapping;
}

// Files are mapped in runs of segments.  Those beyond what any program has are left out, and so are
// their names: what goes by them would take too long.
struct FileRuns {
  static constexpr size_t kMost = 4096;
  static constexpr size_t kMostProcBytes = 2 << 20;

  bool take(std::string_view line, const Mapping& mapping, std::string& module_maps) {
    if (!mapping.path.starts_with('/')) {
      return true;
    }
    runs += mapping.path == last ? 0 : 1;
    last = mapping.path;
    if (runs > kMost || module_maps.size() + line.size() > kMostProcBytes) {
      return false;
    }
    module_maps.append(line) += '\n';
    return true;
  }

  size_t runs = 0;
  std::string last;
};

void read_maps(const std::string& text, ProcProcess& process) {
  FileRuns files;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    std::optional<Mapping> mapping = mapping_of(line);
    if (!mapping) {
      continue;
    }
    if (!files.take(line, *mapping, process.module_maps)) {
      mapping->path.clear();
      process.maps_cut = true;
    }
    process.mappings.push_back(std::move(*mapping));
  }
  process.maps_cut = process.maps_cut || text.size() == kMostMapsBytes;
  process.mappings.shrink_to_fit();
}

// "Uid:\t0\t..", "NSpid:\t77\t1": the last number is the innermost name.
void read_status(const std::string& text, ProcProcess& process) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "Uid:") {
      words >> process.uid;
    } else if (key == "NSpid:") {
      while (words >> process.inner_pid) {
      }
    }
  }
}

bool same_namespace(pid_t pid, const char* name) {
  struct stat theirs = {};
  struct stat ours = {};
  return stat(proc_path(pid, name).c_str(), &theirs) != 0 ||
         stat(fmt::format("/proc/self/{}", name).c_str(), &ours) != 0 ||
         theirs.st_ino == ours.st_ino;
}

std::vector<int> numbers_in(const std::string& folder) {
  std::vector<int> numbers;
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    int number = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), number).ptr ==
        name.data() + name.size()) {
      numbers.push_back(number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// "running", "-1 0xsp 0xpc", or "NUMBER 0x1 .. 0x6 0xsp 0xpc".
std::optional<SystemCall> system_call_of(const std::string& text) {
  std::istringstream in(text);
  SystemCall call;
  if (!(in >> call.number)) {
    return std::nullopt;
  }
  in >> std::hex;
  if (call.number >= 0) {
    for (uint64_t& argument : call.arguments) {
      in >> argument;
    }
  }
  in >> call.stack_pointer >> call.instruction;
  return in.fail() ? std::nullopt : std::optional(call);
}

// "voluntary_ctxt_switches:\t12", "nonvoluntary_ctxt_switches:\t3"
uint64_t switches_in(const std::string& status) {
  uint64_t sum = 0;
  std::istringstream in(status);
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find("_ctxt_switches:");
    sum += colon == line.npos ? 0 : std::strtoull(&line[line.find(':') + 1], nullptr, 10);
  }
  return sum;
}

}  // namespace

pid_t parent_of(pid_t pid) {
  const std::vector<std::string> stat = fields_of_stat(contents(proc_path(pid, "stat")));
  return stat.size() < 2 ? 0 : static_cast<pid_t>(std::strtol(stat[1].c_str(), nullptr, 10));
}

Result<ProcProcess> read_process(pid_t pid) {
  const std::vector<std::string> stat = fields_of_stat(contents(proc_path(pid, "stat")));
  if (stat.size() < 20) {
    return ReadError{proc_path(pid, "stat"), 0, "there is no process with this number", true};
  }
  ProcProcess process;
  process.pid = pid;
  process.state = stat[0][0];
  process.start_time = std::strtoull(stat[19].c_str(), nullptr, 10);
  process.inner_pid = pid;
  read_status(contents(proc_path(pid, "status")), process);
  process.same_pid_namespace = same_namespace(pid, "ns/pid");
  process.same_mount_namespace = same_namespace(pid, "ns/mnt");
  process.executable = link_target(proc_path(pid, "exe"));
  process.command_line = command_line_of(contents(proc_path(pid, "cmdline")));
  process.environment = environment_of(contents(proc_path(pid, "environ")));
  read_maps(contents(proc_path(pid, "maps"), kMostMapsBytes), process);
  process.threads = numbers_in(proc_path(pid, "task"));
  return process;
}

std::optional<ProcThread> read_thread(pid_t pid, int tid) {
  const std::string folder = fmt::format("/proc/{}/task/{}/", pid, tid);
  const std::vector<std::string> stat = fields_of_stat(contents(folder + "stat"));
  if (stat.empty()) {
    return std::nullopt;
  }
  ProcThread thread;
  thread.tid = tid;
  thread.state = stat[0][0];
  thread.name = contents(folder + "comm");
  if (thread.name.ends_with('\n')) {
    thread.name.pop_back();
  }
  thread.switches = switches_in(contents(folder + "status"));
  thread.system_call = system_call_of(contents(folder + "syscall"));
  return thread;
}

// "rchar: 12\nwchar: 3\n.."
std::optional<uint64_t> bytes_moved(pid_t pid, int tid) {
  std::istringstream in(contents(fmt::format("/proc/{}/task/{}/io", pid, tid)));
  std::optional<uint64_t> sum;
  std::string name;
  for (uint64_t value = 0; in >> name >> value;) {
    if (name == "rchar:" || name == "wchar:") {
      sum = sum.value_or(0) + value;
    }
  }
  return sum;
}

std::string descriptor_target(pid_t pid, uint64_t descriptor) {
  return link_target(fmt::format("/proc/{}/fd/{}", pid, descriptor));
}

std::vector<pid_t> all_processes() {
  return numbers_in("/proc");
}

std::string reachable_path(const ProcProcess& process, const std::string& path) {
  if (process.same_mount_namespace) {
    return path;
  }
  // They begin at the root of the namespace; that of the process may lie deeper (chroot).
  const std::string root = link_target(fmt::format("/proc/{}/root", process.pid));
  const bool below = root.size() > 1 && path.starts_with(root + "/");
  return fmt::format("/proc/{}/root{}", process.pid,
                     std::string_view(path).substr(below ? root.size() : 0));
}

std::string path_from_here(const ProcProcess& process, const std::string& path) {
  std::string root = fmt::format("/proc/{}/root", process.pid);
  const bool same_root = process.same_mount_namespace && is_same_file(root, "/");
  return same_root || !path.starts_with('/') ? path : std::move(root) + path;
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code problem;
  return a == b || fs::equivalent(a, b, problem);
}

}  // namespace traintrace
