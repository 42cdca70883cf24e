#include "analyzer/reader/this_machine.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

namespace traintrace {
namespace {

// Fields of /proc/PID/stat behind the name, which is in parentheses and may hold anything.
struct ProcessStat {
  char state = 0;
  uint64_t threads = 0;
  uint64_t start_time = 0;
};

std::optional<ProcessStat> stat_of(int pid, const std::string& root = "") {
  std::ifstream file(root + "/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  if (!file || name_end == line.npos) {
    return std::nullopt;
  }
  std::istringstream fields(line.substr(name_end + 1));
  ProcessStat result;
  fields >> result.state;
  std::string skipped;
  for (int field = 4; field < 20; ++field) {
    fields >> skipped;
  }
  fields >> result.threads >> skipped >> result.start_time;
  return fields ? std::optional(result) : std::nullopt;
}

// Its main thread may end and leave the process to the others.
bool has_ended(const ProcessStat& stat) {
  return stat.state == 'X' || (stat.state == 'Z' && stat.threads <= 1);
}

// A file of one of the process's cgroups, of version 2 or the freezer of version 1, says so.
bool is_frozen(int pid, const std::string& root) {
  std::ifstream groups(root + "/proc/" + std::to_string(pid) + "/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    const std::string folder =
        root + "/sys/fs/cgroup" + (unified ? "" : "/" + controllers) + line.substr(second + 1);
    if (!unified && controllers != "freezer") {
      continue;
    }
    std::ifstream state(folder + (unified ? "/cgroup.events" : "/freezer.state"));
    for (std::string said; std::getline(state, said);) {
      if (said == "frozen 1" || said == "FROZEN") {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

std::optional<uint64_t> own_pid_namespace() {
  struct stat status = {};
  if (stat("/proc/self/ns/pid", &status) != 0) {
    return std::nullopt;
  }
  return status.st_ino;
}

std::string name_of_this_host() {
  utsname names = {};
  return uname(&names) == 0 ? names.nodename : "";
}

// As the tracer keeps it: the bytes of the 32 hexadecimal digits.
std::optional<std::array<uint64_t, 2>> boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  file >> text;
  std::array<uint64_t, 2> id{};
  int digits = 0;
  for (const char c : text) {
    if (c == '-') {
      continue;
    }
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    if (digits == 32 || digit < 0 || digit > 15) {
      return std::nullopt;
    }
    uint64_t& word = id[static_cast<size_t>(digits / 16)];
    word = word << 4 | static_cast<uint64_t>(digit);
    ++digits;
  }
  return digits == 32 ? std::optional(id) : std::nullopt;
}

std::optional<bool> is_running(const format::FileHeader& header) {
  const auto boot = boot_id();
  const auto pids = own_pid_namespace();
  if (!boot || !pids || header.boot_id[0] == 0 || header.pid <= 0) {
    return std::nullopt;
  }
  // Another machine, or this one before it was started again: hosts may have equal names.
  if ((*boot)[0] != header.boot_id[0] || (*boot)[1] != header.boot_id[1] ||
      *pids != header.pid_namespace) {
    return std::nullopt;
  }
  if (const auto stat = stat_of(header.pid)) {
    return stat->start_time == header.start_time && !has_ended(*stat);
  }
  // /proc may be mounted so that it hides the processes of others.
  return kill(header.pid, 0) != 0 && errno == ESRCH ? std::optional(false) : std::nullopt;
}

Halt halt_of(int pid, const std::string& root) {
  const auto stat = stat_of(pid, root);
  return stat && stat->state == 'T'   ? Halt::kStopped
         : stat && stat->state == 't' ? Halt::kTraced
         : is_frozen(pid, root)       ? Halt::kFrozen
                                      : Halt::kNot;
}

}  // namespace traintrace
