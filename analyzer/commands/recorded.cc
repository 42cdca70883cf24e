#include "analyzer/commands/recorded.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <tuple>
#include <vector>

#include "analyzer/reader/read_trace.h"
#include "analyzer/reader/trace_memory.h"
#include "analyzer/text/sizes.h"
#include "format/segments.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;

struct Recorded {
  std::set<std::tuple<uint64_t, int, uint64_t>> processes;  // boot, pid, start time
  uint64_t bytes = 0;
};

// On the disk: copies of a running process have holes.
uint64_t bytes_on_disk(const std::string& path) {
  constexpr uint64_t kBlock = 512;
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * kBlock : 0;
}

void add(const std::string& path, int64_t since_ns, Recorded& recorded) {
  const Result<format::FileHeader> header = read_trace_header(path);
  if (!header || static_cast<int64_t>(header->first_anchor.realtime_ns) < since_ns) {
    return;
  }
  if (recorded.processes.emplace(header->boot_id[0], header->pid, header->start_time).second) {
    const fs::path segments = fs::path(path).replace_extension(format::kSegmentsSuffix);
    recorded.bytes += bytes_on_disk(path) + bytes_on_disk(segments.string());
  }
}

Recorded recorded_in(const std::string& folder, int64_t since_ns) {
  Recorded recorded;
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    if (entry->path().extension() == format::kTraceSuffix) {
      add(entry->path().string(), since_ns, recorded);
    }
  }
  for (const std::string& memory : memories_not_copied(folder)) {
    add(memory, since_ns, recorded);
  }
  return recorded;
}

std::string as_typed(const std::string& folder) {
  std::error_code problem;
  const fs::path near = fs::proximate(folder, problem);
  const bool short_name = !problem && !near.empty() && !near.string().starts_with("..");
  return short_name ? near.string() : folder;
}

bool is_disabled() {
  const char* const disabled = std::getenv("TRAINTRACE_DISABLE");
  return disabled != nullptr && std::string_view(disabled) == "1";
}

}  // namespace

std::string recorded_text(const std::string& folder, int64_t since_ns) {
  if (is_disabled()) {
    return "nothing recorded: TRAINTRACE_DISABLE=1";
  }
  const std::vector<std::string> places = {folder, fmt::format("/tmp/traintrace-{}", geteuid()),
                                           fmt::format("/var/tmp/traintrace-{}", geteuid())};
  for (const std::string& place : places) {
    const Recorded recorded = recorded_in(place, since_ns);
    const size_t count = recorded.processes.size();
    if (count == 0) {
      continue;
    }
    const std::string name = as_typed(place);
    return fmt::format("recorded {} process{} in {} ({}){}; next: traintrace analyze{}", count,
                       count == 1 ? "" : "es", name, file_size_text(recorded.bytes),
                       place == folder ? "" : ", as " + folder + " cannot hold traces",
                       name == "traintrace" ? "" : " " + name);
  }
  return "nothing recorded: no process used CUDA or NCCL";
}

}  // namespace traintrace
