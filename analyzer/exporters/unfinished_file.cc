#include "analyzer/exporters/unfinished_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <utility>

namespace traintrace {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOwnersAlone = 0600;

bool is_regular_or_none(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 ? S_ISREG(status.st_mode) : errno == ENOENT;
}

bool may_be_renamed(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return is_regular_or_none(path) && access(folder.empty() ? "." : folder.c_str(), W_OK) == 0;
}

std::string behind_links(const std::string& path) {
  std::error_code problem;
  if (!fs::is_symlink(path, problem)) {
    return path;
  }
  const fs::path real = fs::weakly_canonical(path, problem);
  return problem ? path : real.string();
}

}  // namespace

UnfinishedFile::UnfinishedFile(const std::string& name)
    : name_(behind_links(name)), path_(may_be_renamed(name_) ? name_ + ".part" : name_) {}

UnfinishedFile::UnfinishedFile(UnfinishedFile&& other) noexcept
    : name_(std::move(other.name_)),
      path_(std::move(other.path_)),
      is_there_(std::exchange(other.is_there_, false)) {}

UnfinishedFile::~UnfinishedFile() {
  if (is_there_) {
    unlink(path_.c_str());
  }
}

int UnfinishedFile::open() {
  // Beyond the limit of the shell (ulimit -f) a write fails, as on a full disk, and does not kill.
  std::signal(SIGXFSZ, SIG_IGN);
  constexpr int kAlways = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY;
  if (path_ != name_) {
    unlink(path_.c_str());  // of one that was killed
    const int file = ::open(path_.c_str(), kAlways | O_EXCL | O_NOFOLLOW, kOwnersAlone);
    is_there_ = file >= 0;
    return file;
  }
  const int file = ::open(path_.c_str(), kAlways | O_TRUNC, kOwnersAlone);
  struct stat status = {};
  if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
    fchmod(file, kOwnersAlone);  // it was there before
  }
  return file;
}

int UnfinishedFile::finish() {
  if (!is_there_) {
    return 0;
  }
  if (std::rename(path_.c_str(), name_.c_str()) != 0) {
    return errno;
  }
  is_there_ = false;
  return 0;
}

}  // namespace traintrace
