// uses: analyzer
// Numbers for people.
#include "analyzer/text/units.h"

#include <gtest/gtest.h>

namespace traintrace {
namespace {

constexpr int64_t kSecondsInNs = 1'000'000'000;

TEST(TextUnits, DurationsAreRoundedOnce) {
  EXPECT_EQ(duration_text(18'749'600), "18.7 ms");
  EXPECT_EQ(duration_text(18'750'100), "18.8 ms");
  EXPECT_EQ(duration_text(4'200'000), "4.20 ms");
  EXPECT_EQ(duration_text(4'000'001), "4 ms");
  EXPECT_EQ(duration_text(1'800), "1.80 us");
  EXPECT_EQ(duration_text(999), "999 ns");
}

TEST(TextUnits, MinutesAreRoundedAsSecondsAre) {
  EXPECT_EQ(duration_text(179'999'000'000), "3 min 0 s");
  EXPECT_EQ(duration_text(180'400'000'000), "3 min 0 s");
  EXPECT_EQ(duration_text(119'000'000'000), "119.0 s");
  EXPECT_EQ(duration_text(7'260 * kSecondsInNs), "2 h 1 min");
  EXPECT_EQ(duration_text(INT64_MIN), duration_text(-INT64_MAX));
}

TEST(TextUnits, EachSizeOfASentenceHasAUnit) {
  EXPECT_EQ(for_people("PyTorch held 1232076800 bytes for 838860800 bytes in use"),
            "PyTorch held 1.15 GiB for 800 MiB in use");
  EXPECT_EQ(for_people("4000 bytes"), "4000 bytes");
  EXPECT_EQ(for_people("dp (1024 ranks); 1023 ranks wait; 16777216 float32"),
            "dp (1,024 ranks); 1,023 ranks wait; 16,777,216 float32");
  EXPECT_EQ(for_people("rank 1023 records nothing, of process 24460"),
            "rank 1023 records nothing, of process 24460")
      << "a name, not a number";
}

}  // namespace
}  // namespace traintrace
