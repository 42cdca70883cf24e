// A folder for files that go with it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace traintrace {

// Readable for this user alone.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code none;
    std::string name = std::filesystem::temp_directory_path(none).string() + "/traintrace.XXXXXX";
    path_ = mkdtemp(name.data()) == nullptr ? "" : name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) {
      std::filesystem::remove_all(path_, ignored);
    }
  }
  const std::string& path() const { return path_; }  // empty: there is none

 private:
  std::string path_;
};

}  // namespace traintrace
