#include "analyzer/commands/launch/recorded.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/commands/launch/preload_obstacle.h"
#include "analyzer/reader/files/trace_memory.h"
#include "analyzer/reader/read_trace.h"
#include "analyzer/reporters/verdict/card.h"
#include "analyzer/text/shell_word.h"
#include "analyzer/text/sizes.h"
#include "format/segments.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;

struct Recorded {
  std::set<std::tuple<uint64_t, int, uint64_t>> processes;  // boot, pid, start time
  uint64_t bytes = 0;
  size_t to_pack = 0;
  std::string pack_folder;
  std::map<std::string, size_t> not_packed;  // by the reason
  bool any_at_work = false;                  // a keeper
};

// On the disk: copies of a running process have holes.
uint64_t bytes_on_disk(const std::string& path) {
  constexpr uint64_t kBlock = 512;
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * kBlock : 0;
}

// What the keeper of that process says of its pack.
void note_packing(const format::FileHeader& header, Recorded& recorded) {
  const auto end = std::find(std::begin(header.collect), std::end(header.collect), '\0');
  const std::string folder(header.collect, end);
  if (folder.empty() && header.collect_problem == 0) {
    return;
  }
  ++recorded.to_pack;
  recorded.pack_folder = folder;
  if (header.collect_problem != 0) {
    ++recorded.not_packed[std::strerror(header.collect_problem)];
  }
  recorded.any_at_work = recorded.any_at_work || header.copy_state != format::kFinal ||
                         (header.collect_problem == 0 && header.collected_realtime_ns == 0);
}

void add(const std::string& path, int64_t since_ns, Recorded& recorded) {
  const Result<format::FileHeader> header = read_trace_header(path);
  if (!header || static_cast<int64_t>(header->first_anchor.realtime_ns) < since_ns) {
    return;
  }
  if (recorded.processes.emplace(header->boot_id[0], header->pid, header->start_time).second) {
    const fs::path segments = fs::path(path).replace_extension(format::kSegmentsSuffix);
    recorded.bytes += bytes_on_disk(path) + bytes_on_disk(segments.string());
    note_packing(*header, recorded);
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

// Of this run only: others may record at the same time where their folder holds nothing either.
void add_elsewhere(const std::string& folder, int64_t since_ns,
                   std::map<std::string, Recorded>& places) {
  for (const std::string& copy : copies_in_other_folders(folder)) {
    add(copy, since_ns, places[fs::path(copy).parent_path().string()]);
  }
}

// The place that has most: the folder itself, or where traces go that cannot be put there.
std::pair<std::string, Recorded> find_recorded(const std::string& folder, int64_t since_ns) {
  std::map<std::string, Recorded> places;
  add_elsewhere(folder, since_ns, places);
  std::pair<std::string, Recorded> most = {folder, recorded_in(folder, since_ns)};
  for (auto& [place, recorded] : places) {
    if (recorded.processes.size() > most.second.processes.size()) {
      most = {place, std::move(recorded)};
    }
  }
  return most;
}

// That the keepers left there: analyze and collect follow them.
bool has_pointers(const std::string& folder) {
  std::error_code ignored;
  const fs::directory_iterator entries(folder, ignored);
  return std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return entry.path().extension() == ".pointer";
  });
}

}  // namespace

std::string recorded_text(const std::string& folder, int64_t since_ns, const std::string& program) {
  if (is_disabled()) {
    return "nothing recorded: TRAINTRACE_DISABLE=1";
  }
  const auto [place, recorded] = find_recorded(folder, since_ns);
  const size_t count = recorded.processes.size();
  if (count == 0) {
    const std::string why = preload_obstacle(program);
    return fmt::format("nothing recorded in {}: {}", as_typed(folder),
                       why.empty() ? "no process used CUDA or NCCL, or those that did were not "
                                     "recorded (linked statically, or started without LD_PRELOAD)"
                                   : program + " " + why);
  }
  const std::string how_many =
      fmt::format("recorded {} process{} in {} ({})", count, count == 1 ? "" : "es",
                  as_typed(place), file_size_text(recorded.bytes));
  if (place != folder && has_pointers(folder)) {
    const std::string typed = shell_word(as_typed(folder));
    return fmt::format(
        "{}, where {} points to; next: traintrace analyze {}; with other hosts, first on each of "
        "them: traintrace collect {}",
        how_many, as_typed(folder), typed, typed);
  }
  const std::string name = as_typed(place);
  return fmt::format("{}{}; next: traintrace analyze{}", how_many,
                     place == folder ? "" : ", as " + folder + " cannot hold traces",
                     name == "traintrace" ? "" : " " + shell_word(name));
}

std::string not_collected_text(const std::string& folder, int64_t since_ns) {
  constexpr auto kMostWait = std::chrono::seconds(3);
  constexpr auto kPause = std::chrono::milliseconds(50);
  const auto end = std::chrono::steady_clock::now() + kMostWait;
  auto [place, recorded] = find_recorded(folder, since_ns);
  while (recorded.to_pack != 0 && recorded.any_at_work && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kPause);
    std::tie(place, recorded) = find_recorded(folder, since_ns);
  }
  if (recorded.not_packed.empty()) {
    return recorded.to_pack != 0 && recorded.any_at_work
               ? "packs are still being written to " + recorded.pack_folder
               : "";
  }
  std::vector<std::string> reasons;
  size_t count = 0;
  for (const auto& [reason, processes] : recorded.not_packed) {
    reasons.push_back(reason);
    count += processes;
  }
  return fmt::format(
      "{} of {} traces not packed into {}: {}; next: traintrace collect {} --to=FOLDER", count,
      recorded.to_pack, recorded.pack_folder, fmt::join(reasons, "; "), as_typed(place));
}

}  // namespace traintrace
