// uses: analyzer
// How far a command is, in words.
#include <gtest/gtest.h>

#include "analyzer/text/progress.h"

namespace traintrace {
namespace {

using std::chrono::seconds;

TEST(Progress, SaysFilesBytesAndTimeLeft) {
  EXPECT_EQ(progress_text(12, 64, 3'100'000'000, 6'400'000'000, seconds(4)),
            "reading file 12 of 64, 3.1 GB of 6.4 GB, 4 s left");
}

TEST(Progress, DoesNotGuessFromNothing) {
  EXPECT_EQ(progress_text(1, 2, 0, 10'000'000, seconds(2)),
            "reading file 1 of 2, 0 bytes of 10 MB");
}

TEST(Progress, IsSilentWhereStderrIsNoTerminal) {
  testing::internal::CaptureStderr();
  {
    Progress progress({"a", "b"});
    progress.next();
    progress.next();
    progress.next();  // more than there are
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace traintrace
