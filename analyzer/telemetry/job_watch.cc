#include "analyzer/telemetry/job_watch.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <utility>

#include "analyzer/reader/files/trace_memory.h"
#include "analyzer/reader/read_trace.h"
#include "analyzer/reader/this_machine.h"
#include "format/segments.h"

namespace traintrace {
namespace {

// The keeper makes a copy each second; in a container of its own only the copy tells.
constexpr TimeNs kSilentNs = 60'000'000'000;

TimeNs now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool is_of_this_machine(const format::FileHeader& header) {
  const auto boot = boot_id();
  return boot && (*boot)[0] == header.boot_id[0] && (*boot)[1] == header.boot_id[1];
}

std::set<std::string> traces_in(const std::string& folder) {
  namespace fs = std::filesystem;
  std::set<std::string> paths;
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const fs::path extension = entry->path().extension();
    if (extension == format::kTraceSuffix || extension == ".pointer") {
      paths.insert(entry->path().string());
    }
  }
  for (std::string& memory : memories_not_copied(folder)) {
    paths.insert(std::move(memory));
  }
  return paths;
}

}  // namespace

std::optional<bool> has_ended(const format::FileHeader& header, TimeNs now) {
  if (!is_of_this_machine(header)) {
    return std::nullopt;
  }
  if (const std::optional<bool> running = is_running(header)) {
    return !*running;
  }
  const bool is_told = header.exit_kind != format::kNotExited ||
                       header.gone_how != format::kNotSeenGone ||
                       header.copy_state == format::kFinal;
  const auto copied = static_cast<TimeNs>(header.copied_realtime_ns);
  return is_told || (copied > 0 && copied < now - kSilentNs);
}

JobWatch::JobWatch(std::string folder) : folder_(std::move(folder)) {
  for (const std::string& path : traces_in(folder_)) {
    if (const std::optional<bool> over = is_over(path)) {
      over_[path] = *over;
      begun_ = begun_ || !*over;
    }
  }
}

std::optional<bool> JobWatch::is_over(const std::string& path) {
  const Result<format::FileHeader> header = read_trace_header(path);
  return header ? has_ended(*header, now_ns()) : std::nullopt;
}

bool JobWatch::look() {
  bool all = true;
  for (const std::string& path : traces_in(folder_)) {
    const auto known = over_.find(path);
    if (known != over_.end() && known->second) {
      continue;
    }
    const std::optional<bool> over = is_over(path);
    if (over || known != over_.end()) {  // what can no longer be read has been removed
      begun_ = true;
      over_[path] = over.value_or(true);
      all = all && over_[path];
    }
  }
  return begun_ && all;
}

}  // namespace traintrace
