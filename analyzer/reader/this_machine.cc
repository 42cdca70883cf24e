#include "analyzer/reader/this_machine.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace traintrace {
namespace {

std::optional<uint64_t> own_pid_namespace() {
  struct stat status = {};
  if (stat("/proc/self/ns/pid", &status) != 0) {
    return std::nullopt;
  }
  return status.st_ino;
}

// Fields of /proc/PID/stat behind the name, which is in parentheses and may hold anything.
struct ProcessStat {
  char state = 0;
  uint64_t start_time = 0;
};

std::optional<ProcessStat> stat_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  if (!file || name_end == line.npos) {
    return std::nullopt;
  }
  std::istringstream fields(line.substr(name_end + 1));
  ProcessStat result;
  fields >> result.state;
  constexpr int kSkipped = 18;  // fields 4 to 21
  std::string skipped;
  for (int i = 0; i < kSkipped; ++i) {
    fields >> skipped;
  }
  fields >> result.start_time;
  return fields ? std::optional(result) : std::nullopt;
}

}  // namespace

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
  if (!boot || !pids || header.boot_id[0] == 0) {
    return std::nullopt;
  }
  if ((*boot)[0] != header.boot_id[0] || (*boot)[1] != header.boot_id[1]) {
    char own_host[sizeof header.host] = {};
    gethostname(own_host, sizeof own_host - 1);
    // This machine, restarted since; or another one.
    const bool here = std::strncmp(own_host, header.host, sizeof header.host) == 0;
    return here ? std::optional(false) : std::nullopt;
  }
  if (*pids != header.pid_namespace) {
    return std::nullopt;
  }
  const auto stat = stat_of(header.pid);
  return stat && stat->start_time == header.start_time && stat->state != 'Z' && stat->state != 'X';
}

}  // namespace traintrace
