#include "analyzer/reader/pointer_file.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "analyzer/reader/trace_bytes.h"

namespace traintrace {

std::optional<Result<std::string>> read_pointer_file(const std::string& path) {
  constexpr std::string_view kFirstLine = "traintrace-pointer 1\n";
  const Result<TraceBytes> file = TraceBytes::open(path);
  std::byte bytes[8192];
  if (!file) {
    return std::nullopt;
  }
  const size_t got = file->read(0, bytes);
  std::string_view text(reinterpret_cast<const char*>(bytes), got);
  if (!text.starts_with(kFirstLine)) {
    return std::nullopt;
  }
  text.remove_prefix(kFirstLine.size());
  const size_t path_end = text.find('\n');
  const size_t host_end = path_end == text.npos ? text.npos : text.find('\n', path_end + 1);
  if (host_end == text.npos || path_end == 0) {
    return ReadError{path, kFirstLine.size(),
                     "expected the path of a trace and a host, a line each", true};
  }
  const std::string target(text.substr(0, path_end));
  const std::string_view host = text.substr(path_end + 1, host_end - path_end - 1);
  utsname names = {};
  const bool elsewhere = uname(&names) != 0 || host != names.nodename;
  if (elsewhere && access(target.c_str(), R_OK) != 0) {
    return ReadError{path, 0,
                     "the trace lies on host " + std::string(host) + " as " + target +
                         ": copy it here, or analyse it there",
                     true};
  }
  return target;
}

}  // namespace traintrace
