// uses: analyzer
// From when to when ranges lasted.
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/model/process/open_ranges.h"
#include "analyzer/model/process/range_spans.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

using Lines = std::vector<std::string>;

constexpr const char* kNames = "range 1 step\nrange 2 forward\nrange 3 batch\n";

// "step 1-4", in seconds; "step 1-" is open.  By thread.
Lines spans(const std::string& text) {
  Result<DumpText> dump =
      parse_dump(std::string("ranks 0\n") + kNames + text + "end +40\n", "test");
  EXPECT_TRUE(dump) << dump.error().message;
  const ProcessTrace& trace = dump->processes.front();
  std::vector<RangeSpan> all = range_spans(trace);
  std::sort(all.begin(), all.end(), [](const RangeSpan& a, const RangeSpan& b) {
    return std::pair(a.thread, a.began) < std::pair(b.thread, b.began);
  });
  const auto seconds = [&](TimeNs time) {
    return std::to_string((time - trace.events.front().enter) / 1'000'000'000 + 1);
  };
  Lines lines;
  for (const RangeSpan& span : all) {
    lines.push_back((span.pushed ? "" : "started ") + range_name_text(trace, span.range) + " " +
                    seconds(span.began) + "-" +
                    (span.ended == RangeSpan::kOpen ? "" : seconds(span.ended)));
  }
  return lines;
}

TEST(RangeSpans, NestOnTheirThread) {
  EXPECT_EQ(spans("+1 0/1 * nvtxRangePush range=1\n+2 0/1 * rangePush range=2\n"
                  "+3 0/2 * nvtxRangePushEx range=1 category=3 payload_type=1 payload=0x7\n"
                  "+4 0/1 * rangePop range=2\n+5 0/1 * nvtxRangePop range=1\n"
                  "+6 0/2 * nvtxRangePop range=1\n"),
            (Lines{"step 1-5", "forward 2-4", "step 3-6"}));
}

TEST(RangeSpans, OfTwoDomainsNeedNotNest) {
  EXPECT_EQ(spans("+1 0/1 * nvtxRangePush range=1\n+2 0/1 * nvtxRangePush range=2\n"
                  "+3 0/1 * nvtxRangePop range=1\n+4 0/1 * nvtxRangePop range=2\n"),
            (Lines{"step 1-3", "forward 2-4"}));
}

TEST(RangeSpans, ThatAreStartedEndByTheirHandle) {
  EXPECT_EQ(spans("+1 0/1 * nvtxRangeStart range=3 handle=0x1\n"
                  "+2 0/1 * nvtxRangeStart range=3 handle=0x2\n"
                  "+3 0/2 * nvtxRangeEnd handle=0x1\n+4 0/2 * nvtxRangeEnd handle=0x9\n"),
            (Lines{"started batch 1-3", "started batch 2-"}));
}

TEST(RangeSpans, OfADamagedTraceAreThoseThatCanBe) {
  EXPECT_EQ(spans("+1 0/1 * nvtxRangePop range=2\n+2 0/1 * nvtxRangePush range=1\n"
                  "open-range 1 at=+2 range=1\nopen-range 1 at=+3 range=2\n"
                  "open-range 1 at=+4 name=\"step 3\" sort=step\n"),
            (Lines{"step 2-", "forward 3-"}));
}

}  // namespace
}  // namespace traintrace
