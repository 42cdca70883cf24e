// Lines of telemetry files, and the file that is bounded.
// uses: analyzer
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "analyzer/telemetry/telemetry_file.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;

class TelemetryFolder : public testing::Test {
 protected:
  TelemetryFolder() {
    char name[] = "/tmp/telemetry.XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~TelemetryFolder() override { fs::remove_all(folder_); }

  std::vector<std::string> lines_of(const std::string& end) const {
    std::ifstream file(folder_ + "/telemetry.node." + std::to_string(getpid()) + end);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
      lines.push_back(line);
    }
    return lines;
  }

  std::string folder_;  // NOLINT
};

std::optional<TelemetryLine> parsed(std::string_view line) {
  std::string expected;
  return parse_telemetry_line(line, expected);
}

std::string expected_instead_of(std::string_view line) {
  std::string expected;
  return parse_telemetry_line(line, expected) ? "" : expected;
}

TEST(TelemetryLines, AreReadAsTheyAreWritten) {
  const TelemetryLine lines[] = {
      FactLine{"host", "node 17"},
      DeviceLine{3, "GPU-1", "0000:1b:00.0", "NVIDIA \"H100\"\n80GB"},
      ReadLine{
          3, 1'763'500'000'123'456'789, {{GpuReading::kSmClock, 1980}, {GpuReading::kReasons, 0}}},
      XidLine{0, 7, 79},
      NoteLine{7, "nvmlX has not\nreturned"},
      EndLine{8, ""},
  };
  for (const TelemetryLine& line : lines) {
    const std::string text = text_of(line);
    EXPECT_EQ(text.find('\n'), text.size() - 1);
    const auto again = parsed(text.substr(0, text.size() - 1));
    ASSERT_TRUE(again) << text;
    EXPECT_EQ(text_of(*again), text);
  }
}

TEST(TelemetryLines, WhatIsNoneSaysWhatShouldBeThere) {
  EXPECT_EQ(expected_instead_of("rea"), "fact, device, read, xid, note or end");
  EXPECT_EQ(expected_instead_of(""), "fact, device, read, xid, note or end");
  for (const char* const line : {"read 0", "read 64 1 sm_mhz=1", "read -1 1 sm_mhz=1",
                                 "read 0 1 sm_mhz", "read 0 1 sm_mhz=x", "read 0 -5 sm_mhz=1",
                                 "read 0 9999999999999999999 sm_mhz=1", "read 0 1 sm_mhz=-1"}) {
    EXPECT_EQ(expected_instead_of(line), "read DEVICE TIME READING=NUMBER ..") << line;
  }
  EXPECT_EQ(expected_instead_of("xid 0 1"), "xid DEVICE TIME NUMBER");
  EXPECT_EQ(expected_instead_of("note 1 a b"), "note TIME TEXT");
}

TEST(TelemetryLines, LeaveOutWhatLaterVersionsRead) {
  const auto line = parsed("read 0 5 sm_mhz=7 humidity_percent=40");
  ASSERT_TRUE(line);
  EXPECT_EQ(text_of(*line), "read 0 5 sm_mhz=7\n");
}

TEST(TelemetryLines, PciBusIdsAreAlike) {
  EXPECT_EQ(plain_pci("00000000:1B:00.0"), "0000:1b:00.0");
  EXPECT_EQ(plain_pci("0000:1b:00.0"), "0000:1b:00.0");
  EXPECT_EQ(plain_pci("10000:e1:00.0"), "10000:e1:00.0");
  for (const char* const text :
       {"", "1b:00.0", "0000:1b:00", "0000:1b:00.9", "x:1b:00.0", "0:1b:00.0 "}) {
    EXPECT_EQ(plain_pci(text), "") << text;
  }
}

TEST_F(TelemetryFolder, HoldsOnlyWhatHasChanged) {
  TelemetryFile file(folder_, "node", 1 << 20);
  std::string problem;
  ASSERT_TRUE(file.create(problem)) << problem;
  file.add(ReadLine{0, 1, {{GpuReading::kSmClock, 1980}, {GpuReading::kEnergy, 5}}});
  file.add(ReadLine{0, 2, {{GpuReading::kSmClock, 1980}, {GpuReading::kEnergy, 6}}});
  file.add(ReadLine{0, 3, {{GpuReading::kSmClock, 1980}, {GpuReading::kEnergy, 6}}});
  file.add(ReadLine{1, 3, {{GpuReading::kSmClock, 1980}}});
  EXPECT_EQ(lines_of(".log"), (std::vector<std::string>{
                                  std::string(kTelemetryMagic), "read 0 1 sm_mhz=1980 energy_mj=5",
                                  "read 0 2 energy_mj=6", "read 0 3", "read 1 3 sm_mhz=1980"}));
  struct stat status = {};
  ASSERT_EQ(stat(file.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
}

TEST_F(TelemetryFolder, IsBegunAnewWithWhatMustNotBeLost) {
  constexpr uint64_t kMost = 4096;
  TelemetryFile file(folder_, "node", kMost);
  std::string problem;
  ASSERT_TRUE(file.create(problem)) << problem;
  file.add(FactLine{"host", "node"});
  file.add(DeviceLine{0, "GPU-1", "", ""});
  file.add(XidLine{0, 2, 79});
  constexpr int kLast = 1000;
  for (int i = 1; i <= kLast; ++i) {
    file.add(ReadLine{0, i, {{GpuReading::kEccUncorrected, 3}, {GpuReading::kEnergy, i}}});
  }
  const std::vector<std::string> lines = lines_of(".log");
  const std::vector<std::string> head = {std::string(kTelemetryMagic), "fact host node",
                                         "device 0 uuid=GPU-1",
                                         "read 0 1 ecc_uncorrected=3 energy_mj=1", "xid 0 2 79"};
  ASSERT_GT(lines.size(), head.size());
  EXPECT_EQ(std::vector<std::string>(lines.begin(), lines.begin() + 5), head);
  // The state when the file was begun, so that what is left out afterwards is known.
  EXPECT_NE(lines[5].find(" ecc_uncorrected=3"), std::string::npos) << lines[5];
  EXPECT_EQ(lines.back(), "read 0 1000 energy_mj=1000");
  EXPECT_EQ(file.lost(), 0U);
  uint64_t bytes = 0;
  size_t files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    bytes += entry.file_size();
    ++files;
  }
  EXPECT_EQ(files, 2U);
  EXPECT_LE(bytes, 2 * (kMost + 1024));
  EXPECT_FALSE(lines_of(".old.log").empty());
}

TEST_F(TelemetryFolder, OfAProcessBeforeWithTheSameNumberIsReplaced) {
  const std::string path = folder_ + "/telemetry.node." + std::to_string(getpid()) + ".log";
  std::ofstream(path) << "of another\n";
  TelemetryFile file(folder_, "node", 1 << 20);
  std::string problem;
  ASSERT_TRUE(file.create(problem)) << problem;
  EXPECT_EQ(lines_of(".log"), std::vector<std::string>{std::string(kTelemetryMagic)});
}

}  // namespace
}  // namespace traintrace
