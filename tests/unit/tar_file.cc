// Archives as tar(1) reads them: names of any length, members that cannot be had.
// uses: analyzer
#include "analyzer/collect/tar_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace traintrace {
namespace {

namespace fs = std::filesystem;

std::string output_of(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    text += static_cast<char>(c);
  }
  EXPECT_EQ(pclose(pipe), 0) << command;
  return text;
}

class TarFiles : public ::testing::Test {
 protected:
  TarFiles() {
    std::string name = (fs::temp_directory_path() / "tar.XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~TarFiles() override { fs::remove_all(folder_); }
  TarFiles(const TarFiles&) = delete;
  TarFiles& operator=(const TarFiles&) = delete;

  std::string folder_;
};

TEST_F(TarFiles, AreReadByTar) {
  const std::string path = folder_ + "/a.tar";
  const std::string longest = "run/" + std::string(200, 'n');
  std::ofstream(folder_ + "/file") << std::string(3000, 'f');
  TarFile tar(path);
  tar.set_time(1795669800);
  tar.add("run/empty", "");
  tar.add(longest, "text");
  EXPECT_TRUE(tar.add_file("run/file", folder_ + "/file"));
  EXPECT_FALSE(tar.add_file("run/absent", folder_ + "/absent"));
  EXPECT_FALSE(tar.add_file("run/folder", folder_));
  tar.add(std::string(99, 'x'), std::string(512, 'b'));
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(tar.finish(), "");
  EXPECT_EQ(output_of("TZ=UTC tar -tvf " + path + " | awk '{print $1, $3, $4, $5, $6}'"),
            "-rw------- 0 2026-11-26 05:10 run/empty\n"
            "-rw------- 4 2026-11-26 05:10 " +
                longest +
                "\n"
                "-rw------- 3000 2026-11-26 05:10 run/file\n"
                "-rw------- 512 2026-11-26 05:10 " +
                std::string(99, 'x') + "\n");
  EXPECT_EQ(output_of("tar -xOf " + path + " " + longest), "text");
  struct stat status = {};
  EXPECT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(TarFiles, ThatCannotBeWrittenLeaveNothing) {
  TarFile nowhere(folder_ + "/absent/a.tar");
  nowhere.add("name", "text");
  EXPECT_EQ(nowhere.finish(), folder_ + "/absent/a.tar: No such file or directory");
  { const TarFile unfinished(folder_ + "/b.tar"); }
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace traintrace
