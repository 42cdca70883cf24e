// uses: analyzer
// Traces that a folder listed and that are gone when they are to be read.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "analyzer/reader/read_trace.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "traintrace-vanishing-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

// A trace whose process has only made its file: nothing is wrong with it, and it is told as such.
void make_begun(const std::string& path) {
  std::ofstream(path) << std::string(8192, '\0');
}

size_t unopened(const TraceSet& set) {
  size_t count = 0;
  for (const ReadError& error : set.errors) {
    count += error.message.find("cannot be opened") != error.message.npos;
  }
  return count;
}

TEST(ReaderVanishing, WhatAFolderListedMayBeGone) {
  const Folder folder;
  const std::string made = folder.file("made");
  make_begun(made);
  std::atomic<bool> stop = false;
  std::thread processes_that_end([&] {
    for (int pid = 1; !stop; ++pid) {
      const std::string trace = folder.file("host." + std::to_string(pid) + ".2.trace");
      fs::create_hard_link(made, trace);
      fs::remove(trace);
    }
  });
  size_t seen = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string paths[] = {folder.path()};
    const TraceSet set = read_traces(paths, {});
    EXPECT_EQ(unopened(set), 0);
    seen += set.errors.size();
  }
  stop = true;
  processes_that_end.join();
  EXPECT_GT(seen, 0);  // the folder was read with and without it
}

TEST(ReaderVanishing, WhatTheUserNamedIsMissed) {
  const Folder folder;
  const std::string paths[] = {folder.file("host.1.2.trace")};
  EXPECT_EQ(unopened(read_traces(paths, {})), 1);
}

TEST(ReaderVanishing, AListedLinkToNothingIsTold) {
  const Folder folder;
  fs::create_symlink(folder.file("nothing"), folder.file("host.1.2.trace"));
  const std::string paths[] = {folder.path()};
  EXPECT_EQ(unopened(read_traces(paths, {})), 1);
}

}  // namespace
}  // namespace traintrace
