#include "analyzer/isolation/silence.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "analyzer/isolation/board.h"
#include "analyzer/isolation/stage.h"

namespace traintrace {

std::vector<std::string> silent_stages;
bool anything_silent = false;

const char* const kIsSilent = "does not answer for 30 s: is its file server gone?";

namespace {

namespace fs = std::filesystem;

// How a call to the kernel says which file it is about.
enum class Names { kDescriptor, kPath, kPathInFolder };

struct FileCall {
  long number;
  Names names;
};

constexpr FileCall kFileCalls[] = {
    {SYS_read, Names::kDescriptor},
    {SYS_pread64, Names::kDescriptor},
    {SYS_write, Names::kDescriptor},
    {SYS_pwrite64, Names::kDescriptor},
    {SYS_getdents64, Names::kDescriptor},
    {SYS_fstat, Names::kDescriptor},
    {SYS_lseek, Names::kDescriptor},
    {SYS_close, Names::kDescriptor},
    {SYS_fsync, Names::kDescriptor},
    {SYS_ftruncate, Names::kDescriptor},
    {SYS_openat, Names::kPathInFolder},
    {SYS_newfstatat, Names::kPathInFolder},
    {SYS_statx, Names::kPathInFolder},
    {SYS_faccessat, Names::kPathInFolder},
    {SYS_readlinkat, Names::kPathInFolder},
    {SYS_mkdirat, Names::kPathInFolder},
    {SYS_unlinkat, Names::kPathInFolder},
#ifdef SYS_open  // the older architectures alone have these
    {SYS_open, Names::kPath},
    {SYS_stat, Names::kPath},
    {SYS_lstat, Names::kPath},
    {SYS_access, Names::kPath},
    {SYS_readlink, Names::kPath},
    {SYS_mkdir, Names::kPath},
    {SYS_unlink, Names::kPath},
    {SYS_rename, Names::kPath},
#endif
};

std::string path_at(pid_t process, uint64_t address) {
  std::array<char, 4096> text{};
  // Up to the end of its page, after which there may be no memory.
  const size_t count = std::min(text.size() - 1, size_t{4096} - address % 4096);
  const iovec into = {text.data(), count};
  const iovec from = {reinterpret_cast<void*>(address),
                      count};  // NOLINT(performance-no-int-to-ptr)
  return process_vm_readv(process, &into, 1, &from, 1, 0) > 0 ? text.data() : "";
}

// Asks the loader of names alone, and no file system.
std::string file_of(pid_t process, uint64_t descriptor) {
  char path[4096];
  const std::string link = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(descriptor);
  const ssize_t bytes = readlink(link.c_str(), path, sizeof path);
  return bytes <= 0 ? "" : std::string(path, static_cast<size_t>(bytes));
}

// Terminals and pipes wait for people and for other programs.
bool may_be_silent(const std::string& path) {
  return !path.empty() && !path.starts_with("/dev/") && path.find(":[") == path.npos;
}

// "0 0x3 0x7ffd.." is a call and its arguments.
std::optional<std::string> file_waited_for(pid_t process, const fs::path& task) {
  std::ifstream file(task / "syscall");
  std::istringstream words;
  if (std::string line; std::getline(file, line)) {
    words.str(line);
  }
  long number = -1;
  std::string first;
  std::string second;
  words >> number >> first >> second;
  const auto* const call =
      std::find_if(std::begin(kFileCalls), std::end(kFileCalls),
                   [&](const FileCall& other) { return other.number == number; });
  if (!words || call == std::end(kFileCalls)) {
    return std::nullopt;
  }
  const uint64_t one = std::strtoull(first.c_str(), nullptr, 16);
  const uint64_t two = std::strtoull(second.c_str(), nullptr, 16);
  std::string path = call->names == Names::kDescriptor ? file_of(process, one)
                     : call->names == Names::kPath     ? path_at(process, one)
                                                       : path_at(process, two);
  return may_be_silent(path) ? std::optional(std::move(path)) : std::nullopt;
}

// Where the kernel does not tell a parent what its child calls.
bool waits_for_a_disk(const fs::path& task) {
  std::ifstream file(task / "stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(") ");
  return name_end != line.npos && line[name_end + 2] == 'D';
}

}  // namespace

// Time on processors and bytes that were read and written, of all of its threads.
std::string SilenceWatch::progress() const {
  const std::string folder = "/proc/" + std::to_string(child_);
  std::ifstream stat(folder + "/stat");
  std::string text;
  std::getline(stat, text);
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 2)));
  std::string state;
  std::string skipped;
  std::string user;
  std::string system;
  fields >> state;
  for (int field = 4; field < 14; ++field) {
    fields >> skipped;
  }
  fields >> user >> system;
  // Whoever stops it will let it go on.
  std::string all = state == "T" || state == "t" ? "" : user + " " + system;
  std::ifstream io(folder + "/io");
  for (std::string line; !all.empty() && std::getline(io, line);) {
    all += " " + line;
  }
  return all;
}

std::optional<std::string> SilenceWatch::silent_file() {
  const auto now = std::chrono::steady_clock::now();
  std::string progress = this->progress();
  if (progress.empty() || progress != last_) {
    last_ = std::move(progress);
    since_ = now;
    return std::nullopt;
  }
  if (now - since_ < kPatience) {
    return std::nullopt;
  }
  std::optional<std::string> found;
  std::error_code problem;
  for (fs::directory_iterator task("/proc/" + std::to_string(child_) + "/task", problem), end;
       !problem && task != end; task.increment(problem)) {
    if (auto file = file_waited_for(child_, task->path())) {
      return file;
    }
    found = waits_for_a_disk(task->path()) ? std::optional(std::string()) : found;
  }
  return found;
}

bool is_anything_silent() {
  return anything_silent;
}

bool was_silent(const std::string& stage) {
  return std::find(silent_stages.begin(), silent_stages.end(), stage_name(stage)) !=
         silent_stages.end();
}

}  // namespace traintrace
