#include "analyzer/reader/files/opened_inputs.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "analyzer/reader/files/brought.h"

namespace traintrace {
namespace {

struct Inputs {
  std::mutex mutex;
  std::set<std::pair<dev_t, ino_t>> files;
};

Inputs& inputs() {
  static auto& all = *new Inputs;
  return all;
}

}  // namespace

const char* const kIsInput = "it is one of the inputs";

void remember_input(const std::string& path) {
  struct stat status = {};
  std::filesystem::path place = place_of(path);
  while (stat(place.c_str(), &status) != 0) {
    if (errno != ENOTDIR || !place.has_relative_path()) {
      return;
    }
    place = place.parent_path();
  }
  if (S_ISREG(status.st_mode)) {
    const std::lock_guard lock(inputs().mutex);
    inputs().files.emplace(status.st_dev, status.st_ino);
  }
}

bool is_input(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    return false;
  }
  const std::lock_guard lock(inputs().mutex);
  return inputs().files.contains({status.st_dev, status.st_ino});
}

}  // namespace traintrace
