#include "analyzer/reader/files/pointer_file.h"

#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/reader/files/trace_bytes.h"
#include "analyzer/reader/host_clocks.h"
#include "analyzer/reader/this_machine.h"
#include "analyzer/text/words.h"
#include "format/trace_format.h"

namespace traintrace {
namespace {

constexpr std::string_view kFirstLine = "traintrace-pointer 1\n";
constexpr size_t kMostBytes = 8192;
constexpr int64_t kMostRank = 1 << 24;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

// After the path and the host: NAME VALUE, of which those that are not known mean nothing.
void read_more(std::string_view line, ElsewhereTrace& trace) {
  const size_t blank = line.find(' ');
  if (line.starts_with("boot ")) {
    trace.boot = line.substr(blank + 1);
    return;
  }
  const auto value = blank == line.npos ? std::nullopt : parse_unsigned(line.substr(blank + 1));
  const std::string_view name = line.substr(0, blank);
  if (!value) {
    return;
  }
  if (name == "run") {
    trace.run_key = *value;
  } else if (name == "rank" && *value < kMostRank) {
    trace.rank = static_cast<int>(*value);
  } else if (name == "world" && *value <= kMostRank) {
    trace.world_size = static_cast<int>(*value);
  } else if (name == "pids") {
    trace.pid_namespace = *value;
  }
}

// What is missing then was removed.  An older pointer has the name alone.
bool is_this_host(const ElsewhereTrace& trace) {
  if (trace.host != name_of_this_host()) {
    return false;
  }
  const auto boot = boot_id();
  const auto pids = own_pid_namespace();
  return trace.boot.empty() || !boot || !pids ||
         (trace.boot == boot_text({(*boot)[0], (*boot)[1]}) && trace.pid_namespace == *pids);
}

// What lies there may be the trace of another process, on another host of that name.
bool is_there(const ElsewhereTrace& trace) {
  if (access(trace.path.c_str(), R_OK) != 0) {
    return false;
  }
  format::FileHeader header = {};
  const Result<TraceBytes> file = TraceBytes::open(trace.path);
  std::byte bytes[sizeof header];
  if (trace.boot.empty() || !file || file->read(0, bytes) < sizeof bytes) {
    return true;
  }
  header = value_from<format::FileHeader>(bytes);
  const std::string boot = boot_text(header.boot_id);
  return boot.empty() || boot == trace.boot;
}

// Where pointers lie, by host and path of the trace.
struct Folders {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, std::string> by_trace;
};

Folders& folders() {
  static auto& all = *new Folders;
  return all;
}

void note_pointer(const std::string& path, const ElsewhereTrace& trace) {
  const size_t slash = path.rfind('/');
  const std::lock_guard lock(folders().mutex);
  folders().by_trace[{trace.host, trace.path}] = slash == path.npos ? "." : path.substr(0, slash);
}

ReadError not_here(const std::string& path, ElsewhereTrace trace) {
  ReadError error;
  error.file = path;
  error.message = "the trace is on host " + trace.host + " as " + trace.path +
                  ": collect it there (traintrace collect), or analyze it there";
  error.fatal = true;
  note_pointer(path, trace);
  error.elsewhere = std::move(trace);
  return error;
}

std::optional<Result<ElsewhereTrace>> parsed(const std::string& path) {
  const Result<TraceBytes> file = TraceBytes::open(path);
  std::byte bytes[kMostBytes];
  if (!file) {
    return std::nullopt;
  }
  const size_t got = file->read(0, bytes);
  std::string_view text(reinterpret_cast<const char*>(bytes), got);
  if (!text.starts_with(kFirstLine)) {
    return std::nullopt;
  }
  const std::vector<std::string_view> lines = lines_of(text.substr(kFirstLine.size()));
  if (lines.size() < 2 || lines[0].empty()) {
    return ReadError{path, kFirstLine.size(),
                     "expected the path of a trace and a host, a line each", true};
  }
  ElsewhereTrace trace;
  trace.path = lines[0];
  trace.host = lines[1];
  for (size_t i = 2; i < lines.size(); ++i) {
    read_more(lines[i], trace);
  }
  return trace;
}

}  // namespace

std::optional<Result<std::string>> read_pointer_file(const std::string& path) {
  std::optional<Result<ElsewhereTrace>> trace = parsed(path);
  if (!trace) {
    return std::nullopt;
  }
  if (!*trace) {
    return trace->error();
  }
  ElsewhereTrace& named = **trace;
  if (!is_there(named) && !is_this_host(named)) {
    return not_here(path, std::move(named));
  }
  return std::move(named.path);
}

std::optional<ReadError> gone_from_here(const std::string& path) {
  std::optional<Result<ElsewhereTrace>> trace = parsed(path);
  if (!trace || !*trace || access((*trace)->path.c_str(), F_OK) == 0 || errno != ENOENT) {
    return std::nullopt;
  }
  return not_here(path, std::move(**trace));
}

std::string folder_of_pointer(const ElsewhereTrace& trace) {
  const std::lock_guard lock(folders().mutex);
  const auto found = folders().by_trace.find({trace.host, trace.path});
  return found == folders().by_trace.end() ? "" : found->second;
}

}  // namespace traintrace
