#include "analyzer/text/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "analyzer/text/printable.h"

namespace traintrace {

std::string label_value(const std::string& text) {
  std::string escaped;
  for (const char c : printable(text)) {
    escaped += c == '\\' || c == '"' ? std::string{'\\', c} : std::string(1, c);
  }
  return escaped;
}

std::string head_of_metric(std::string_view name, std::string_view type, std::string_view help) {
  return fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

bool write_for_prometheus(const std::string& path, const std::string& text, std::string& problem) {
  constexpr mode_t kAllMayRead = 0644;
  const std::string beside =
      fmt::format("{}.{}.tmp", path, getpid());  // the collector reads *.prom
  const int file =
      open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kAllMayRead);
  const bool written = file >= 0 && fchmod(file, kAllMayRead) == 0 &&
                       write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0) {
    close(file);
  }
  if (!written || std::rename(beside.c_str(), path.c_str()) != 0) {
    problem = path + ": " + std::strerror(errno);
    unlink(beside.c_str());
    return false;
  }
  return true;
}

}  // namespace traintrace
