// uses: interpose/keeper/folder_limit.cc interpose/life/identity.cc interpose/base/files.cc
// uses: interpose/record/clock.cc
// Which traces of a folder go when it is to take less: whole runs that ended, and nothing else.
#include "interpose/keeper/folder_limit.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "format/schema.h"

namespace {

namespace fs = std::filesystem;
namespace format = traintrace::format;
using Names = std::set<std::string>;

constexpr uint64_t kNs = 1'000'000'000;
constexpr uint64_t kFileBytes = 1 << 20;
constexpr uint64_t kOwnRun = 1;

uint64_t now_s() {
  return static_cast<uint64_t>(time(nullptr));
}

struct Trace {
  uint64_t run;
  uint64_t copied_s;
  format::CopyState state = format::kFinal;
  int status = 0;
  format::ExitKind exit = format::kExit;
  uint32_t version = format::kVersion;
  uint64_t begun_s = 0;
};

class FolderLimit : public testing::Test {
 protected:
  FolderLimit() : stats_(1 << 16) {
    char name[] = "/tmp/folder-limit.XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~FolderLimit() override { fs::remove_all(folder_); }

  void put_text(const std::string& name, const std::string& beginning) {
    std::ofstream file(folder_ / name, std::ios::binary);
    file << beginning << std::string(kFileBytes - beginning.size(), 'x');
  }

  void put(const std::string& name, const Trace& trace) {
    format::FileHeader header = {};
    memcpy(header.magic, format::kMagic, sizeof header.magic);
    header.version = trace.version;
    header.pid_namespace = 1;  // another than here: whether it runs cannot be seen
    header.run_key = trace.run;
    header.first_anchor.realtime_ns = trace.begun_s * kNs;
    header.copy_state = trace.state;
    header.copied_realtime_ns = trace.copied_s * kNs;
    header.exit_kind = trace.exit;
    header.exit_status = trace.status;
    put_text(name, std::string(reinterpret_cast<const char*>(&header), sizeof header));
  }

  // What is left where so many files may stay, for somebody of run 1.
  Names left(uint64_t files, uint64_t begun_s = 0) {
    auto* const own = reinterpret_cast<format::FileHeader*>(stats_.data());
    own->folder_limit_bytes = files * kFileBytes;
    own->run_key = kOwnRun;
    own->first_anchor.realtime_ns = begun_s * kNs;
    own->section_count = 1;
    own->sections[0] = {format::kStats, 8, format::kHeaderBytes, 4096};
    const int folder = open(folder_.c_str(), O_RDONLY | O_DIRECTORY);
    traintrace::keep_below_limit(folder, *own);
    close(folder);
    Names names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  uint64_t removed() const {
    const char* const counts = stats_.data() + format::kHeaderBytes;
    return reinterpret_cast<const uint64_t*>(counts)[static_cast<int>(format::Stat::RunsRemoved)];
  }

  fs::path folder_;
  std::vector<char> stats_;
};

TEST_F(FolderLimit, TheOldestRunGoesWithItsSegments) {
  put("a.1.1.trace", {.run = 2, .copied_s = 1000});
  put_text("a.1.1.segments", "trtseg1\n");
  put("a.2.1.trace", {.run = 2, .copied_s = 1100});
  put("a.3.1.trace", {.run = 3, .copied_s = 2000});
  EXPECT_EQ(left(4).size(), 4u);
  EXPECT_EQ(removed(), 0u);
  EXPECT_EQ(left(3), Names{"a.3.1.trace"});
  EXPECT_EQ(removed(), 1u);
}

TEST_F(FolderLimit, RunsThatFailedStayLonger) {
  put("a.1.1.trace", {.run = 2, .copied_s = 1000, .status = 1});
  put("a.2.1.trace", {.run = 3, .copied_s = 1500, .exit = format::kNotExited});
  put("a.3.1.trace", {.run = 4, .copied_s = 2000});
  EXPECT_EQ(left(2), (Names{"a.1.1.trace", "a.2.1.trace"}));
  EXPECT_EQ(left(1), Names{"a.2.1.trace"});
}

TEST_F(FolderLimit, OwnAndRunningRunsStay) {
  put("a.1.1.trace", {.run = kOwnRun, .copied_s = 1000});
  put("a.2.1.trace", {.run = 3, .copied_s = now_s(), .state = format::kPartial});
  put("a.3.1.trace", {.run = 3, .copied_s = 1000});
  EXPECT_EQ(left(1).size(), 3u);
}

// The clock was set back since: what runs has a copy from the future.
TEST_F(FolderLimit, ARunningRunStaysWhenTheClockIsSetBack) {
  put("a.1.1.trace", {.run = 2, .copied_s = now_s() + 7200, .state = format::kPartial});
  EXPECT_EQ(left(0).size(), 1u);  // 0: there is no limit
  put("a.2.1.trace", {.run = 3, .copied_s = now_s() + 7200, .state = format::kPartial});
  EXPECT_EQ(left(1).size(), 2u);
}

// The environment of all runs is the same: the own one is what was there at the same time, also
// when the clock says that it ended before it began.  Such a run may go as any other.
TEST_F(FolderLimit, RunsAreToldApartWhenTheClockIsSetBack) {
  const uint64_t begun_s = now_s() + 7200;
  put("a.1.1.trace", {.run = kOwnRun, .copied_s = now_s(), .begun_s = begun_s});
  put("a.2.1.trace", {.run = kOwnRun, .copied_s = 2000, .begun_s = 1000});
  put("a.3.1.trace", {.run = kOwnRun, .copied_s = 3000, .begun_s = 9000});
  put("a.4.1.trace", {.run = kOwnRun, .copied_s = now_s(), .begun_s = begun_s});
  EXPECT_EQ(left(1, begun_s), (Names{"a.1.1.trace", "a.4.1.trace"}));
  EXPECT_EQ(removed(), 2u);
}

// Of a container that was killed nobody completes the copy.
TEST_F(FolderLimit, APartialCopyFromLongAgoMayGo) {
  put("a.1.1.trace", {.run = 2, .copied_s = now_s() - 7200, .state = format::kPartial});
  put("a.2.1.trace", {.run = 3, .copied_s = now_s(), .state = format::kPartial});
  EXPECT_EQ(left(1), Names{"a.2.1.trace"});
}

TEST_F(FolderLimit, WhatIsNoTraceOfOursStays) {
  put_text("model.trace", "{\"traceEvents\":[]}");
  put("a.1.1.trace", {.run = 2, .copied_s = 1000, .version = 3});
  put_text("checkpoint.pt", "PK");
  fs::create_directory(folder_ / "folder.trace");
  put("elsewhere", {.run = 2, .copied_s = 1000});
  fs::create_symlink(folder_ / "elsewhere", folder_ / "link.trace");
  put("a.9.1.trace", {.run = 5, .copied_s = 1000});
  EXPECT_EQ(left(1), (Names{"model.trace", "a.1.1.trace", "checkpoint.pt", "folder.trace",
                            "elsewhere", "link.trace"}));
}

}  // namespace
