#include "interpose/life/told.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "interpose/base/files.h"
#include "interpose/calls/call_names.h"
#include "interpose/life/stderr_line.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

using format::kSettings;
using format::Setting;

constexpr const char* kPrefix = "TRAINTRACE_";
constexpr int kSettingCount = static_cast<int>(Setting::kCount);

// A forked child has inherited what was said before it.
constinit uint32_t g_told_settings = 0;
constinit uint32_t g_told_refused[kSettingCount] = {};
constinit uint32_t g_told_place = 0;
constinit uint32_t g_told_root = 0;
constinit uint32_t g_told_shared = 0;
constinit uint32_t g_told_runtime = 0;

// The root directory at the start.
constinit dev_t g_root_device = 0;
constinit ino_t g_root_inode = 0;

[[gnu::constructor]] void remember_root() {
  const int saved_errno = errno;
  struct stat root = {};
  if (stat("/", &root) == 0) {
    g_root_device = root.st_dev;
    g_root_inode = root.st_ino;
  }
  errno = saved_errno;
}

bool is_first_time(uint32_t& told) {
  return __atomic_exchange_n(&told, 1, __ATOMIC_RELAXED) == 0;
}

// As launchers number them; a process without a number speaks for itself.
bool is_first_rank() {
  constexpr const char* kRanks[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                    "SLURM_PROCID"};
  for (const char* const name : kRanks) {
    const char* const rank = getenv(name);
    if (rank && *rank) {
      return equal(rank, "0");
    }
  }
  return true;
}

// `variable` is NAME=VALUE.
bool is_setting(const char* variable, size_t name_bytes) {
  for (const format::SettingSpec& setting : kSettings) {
    if (strlen(setting.environment) == name_bytes &&
        strncmp(setting.environment, variable, name_bytes) == 0) {
      return true;
    }
  }
  return false;
}

const char* separator(const Text& line) {
  return line.length() == 0 ? "" : "; ";
}

void add_bad_values(const Settings& settings, Text& line) {
  for (int i = 0; i < kSettingCount; ++i) {
    const format::SettingSpec& setting = kSettings[i];
    const char* const value = getenv(setting.environment);
    if (settings.errors[i] && value) {
      line << separator(line) << setting.environment << "=" << value << " is "
           << settings.errors[i];
      if (!strstr(setting.values, "..")) {  // a range is in the complaint
        line << " (" << setting.values << ")";
      }
      line << ": " << setting.fallback << " is used";
    }
  }
}

void add_unknown_names(Text& line) {
  for (char** at = environ; at && *at; ++at) {
    const char* const equals = strchr(*at, '=');
    const size_t bytes = equals ? static_cast<size_t>(equals - *at) : 0;
    if (starts_with(*at, kPrefix) && !is_setting(*at, bytes)) {
      line << separator(line);
      line.append(*at, bytes) << " is no setting and is ignored (traintrace settings lists them)";
    }
  }
}

void add_unmatched_calls(const Settings& settings, Text& line) {
  ShortText unmatched;
  name_unmatched(settings.calls, unmatched);
  if (unmatched.length()) {
    line << separator(line) << "TRAINTRACE_CALLS=" << settings.calls
         << ": no call has such a name: " << unmatched.c_str() << " (traintrace calls lists them)";
  }
}

}  // namespace

void tell_smaller_ring(const Settings& settings, const MemoryRegion& region) noexcept {
  if (settings.ring_mb_asked && region.ring_mb < settings.ring_mb) {
    ShortText what;
    what << "only " << int64_t{region.ring_mb} << " MiB are used";
    tell_refused(Setting::RingMb, what.c_str(), region.why_smaller);
  }
}

void tell_about_settings(const Settings& settings) noexcept {
  ShortText line;
  add_bad_values(settings, line);
  add_unknown_names(line);
  add_unmatched_calls(settings, line);
  if (line.length() && is_first_rank() && is_first_time(g_told_settings)) {
    say(line.c_str());
  }
}

void tell_refused(Setting setting, const char* what, const char* why) noexcept {
  const int index = static_cast<int>(setting);
  if (is_first_rank() && is_first_time(g_told_refused[index])) {
    const char* const value = getenv(kSettings[index].environment);
    ShortText line;
    line << kSettings[index].environment << "=" << (value ? value : "") << ": " << what << ": "
         << why;
    say(line.c_str());
  }
}

void tell_not_collected(const format::FileHeader& memory) noexcept {
  const int problem = load(memory.collect_problem);
  if (problem) {
    tell_refused(Setting::Collect, "traces cannot be collected there",
                 problem == ENAMETOOLONG ? "the path is longer than 511 bytes" : strerror(problem));
  }
}

void tell_shared_gpu(int ordinal) noexcept {
  if (is_first_rank() && is_first_time(g_told_shared)) {
    ShortText line;
    line << "GPU " << int64_t{ordinal}
         << " is shared through MPS: what other processes do there is not recorded, and takes time "
            "and memory from this one";
    say(line.c_str());
  }
}

void tell_static_runtime() noexcept {
  if (is_first_rank() && is_first_time(g_told_runtime)) {
    say("the CUDA runtime is linked into the program: its calls are recorded as the driver's "
        "(cuMemAlloc for cudaMalloc)");
  }
}

bool root_was_changed() noexcept {
  struct stat root = {};
  return g_root_inode != 0 && stat("/", &root) == 0 &&
         (root.st_dev != g_root_device || root.st_ino != g_root_inode);
}

void tell_changed_root(const format::FileHeader& memory) noexcept {
  if (is_first_rank() && is_first_time(g_told_root)) {
    ShortText line;
    line << "the process has changed its root directory (chroot): its trace lies in "
         << memory.folder << " below the new one";
    say(line.c_str());
  }
}

// The copy's path is stored first letter last.
void tell_other_place(const format::FileHeader& memory) noexcept {
  if (load(memory.copy_path[0]) && memory.not_in_folder[0] && is_first_rank() &&
      is_first_time(g_told_place)) {
    const char* const slash = strrchr(memory.copy_path, '/');
    // One too long to be shown, or to be kept, is not needed to find the traces either.
    constexpr size_t kShown = 256;
    const size_t folder_bytes = strlen(memory.folder);
    const bool shown = folder_bytes != 0 && folder_bytes <= kShown;
    const auto path_bytes = static_cast<size_t>(slash - memory.copy_path);
    ShortText line;
    line << "traces are kept in ";
    line.append(memory.copy_path, path_bytes) << " of each host, not in ";
    line << (shown ? memory.folder : "TRAINTRACE_DIR") << ": " << memory.not_in_folder
         << "; on each host, `traintrace collect ";
    shown ? line << memory.folder : line.append(memory.copy_path, path_bytes);
    line << " --to=FOLDER` gathers them in a folder of yours";
    say(line.c_str());
  }
}

}  // namespace traintrace
