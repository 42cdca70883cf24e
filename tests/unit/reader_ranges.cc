// uses: analyzer
// Ranges of NVTX as the reader finds them, in good traces and in damaged ones.
#include <gtest/gtest.h>
#include <unistd.h>

#include "analyzer/reader/read_trace.h"
#include "analyzer/text/dump_parser.h"
#include "analyzer/text/dump_printer.h"
#include "tests/unit/trace_builder.h"

namespace traintrace {
namespace {

using testing::moment;
using testing::TemporaryFile;
using testing::ticks_at_ms;
using testing::TraceBuilder;

constexpr uint16_t kPush = 13;  // in the builder's schema

ProcessTrace read_bytes(const std::string& bytes) {
  static int count = 0;
  const TemporaryFile file(::testing::TempDir() + "reader_ranges." + std::to_string(getpid()) +
                               "." + std::to_string(++count) + ".trace",
                           bytes);
  Result<ProcessTrace> trace = read_trace(file.path(), {.events = true});
  if (!trace) {
    ADD_FAILURE() << trace.error().message;
    return {};
  }
  return std::move(*trace);
}

void define(TraceBuilder& builder, uint32_t id, const std::string& domain,
            const std::string& name) {
  builder.add_definition(
      format::RangeNameDefinition{
          {}, id, static_cast<uint32_t>(domain.size()), static_cast<uint32_t>(name.size()), 0},
      format::kRangeName, domain + name);
}

format::OpenRanges open_ranges(uint32_t thread, uint64_t depth) {
  format::OpenRanges ranges{};
  ranges.state = 5 << 16 | depth;
  ranges.thread = thread;
  return ranges;
}

TraceBuilder good() {
  TraceBuilder builder;
  builder.add_thread(1, 1);
  define(builder, 3, "", "step 12");
  define(builder, 9, "my", "forward");
  format::OpenRanges ranges = open_ranges(1, 3);
  ranges.deeper = 2;
  ranges.ranges[0] = {ticks_at_ms(5), 3, 0, {}};
  ranges.ranges[1] = {0, 3, 0, {}};  // ended, out of order
  ranges.ranges[2] = {ticks_at_ms(6), 0, 1, {}};
  std::memset(ranges.ranges[2].name, 'n', sizeof ranges.ranges[2].name);
  builder.open_ranges.push_back(ranges);
  builder.add_chunk(1, 1, 0, {moment(kPush, 5, {3})});
  return builder;
}

TEST(ReaderRanges, AreReadWithTheirNames) {
  TraceBuilder builder = good();
  const ProcessTrace trace = read_bytes(builder.build());
  EXPECT_TRUE(trace.errors.empty());
  ASSERT_EQ(trace.ranges.size(), 2u);
  EXPECT_EQ(trace.ranges.at(3).name, "step 12");
  EXPECT_EQ(trace.ranges.at(9).domain, "my");
  const ThreadText& thread = trace.threads.at(0);
  ASSERT_EQ(thread.ranges.size(), 2u);
  EXPECT_EQ(thread.ranges[0].range, 3u);
  EXPECT_EQ(thread.ranges[0].began, TimeNs{testing::kTestEpochNs} + 5'000'000);
  EXPECT_EQ(thread.ranges[1].name, std::string(48, 'n'));
  EXPECT_EQ(thread.deeper_ranges, 2u);
}

TEST(ReaderRanges, GoThroughTheTextForm) {
  TraceBuilder builder = good();
  const ProcessTrace traces[] = {read_bytes(builder.build())};
  std::string text;
  print_dump(traces, {}, [&](std::string_view part) { text += part; });
  EXPECT_NE(text.find("\nrange 3 \"step 12\"\n"), text.npos) << text;
  EXPECT_NE(text.find(" * nvtxRangePush \"range=3=step 12\" "), text.npos) << text;
  const auto again = parse_dump(text, "again");
  ASSERT_TRUE(again) << again.error().message;
  const ProcessTrace& trace = again->processes.at(0);
  EXPECT_EQ(trace.ranges.at(9).domain, "my");
  EXPECT_EQ(trace.threads.at(0).ranges.size(), 2u);
  EXPECT_EQ(trace.threads.at(0).deeper_ranges, 2u);
  EXPECT_EQ(trace.values_of(trace.events.at(0))[0], 3u);
  std::string twice;
  print_dump(again->processes, {}, [&](std::string_view part) { twice += part; });
  EXPECT_EQ(twice, text);
}

TEST(ReaderRanges, OfThreadsThatAreNotThereAreIgnored) {
  TraceBuilder builder = good();
  builder.open_ranges[0].thread = 8;
  builder.open_ranges.push_back(open_ranges(0, 1));
  EXPECT_TRUE(read_bytes(builder.build()).threads.at(0).ranges.empty());
}

TEST(ReaderRanges, NoDepthLeadsBeyondTheElement) {
  TraceBuilder builder = good();
  builder.open_ranges[0].state = UINT64_MAX;
  for (format::OpenRange& range : builder.open_ranges[0].ranges) {
    range.began_ticks = 1;
  }
  builder.open_ranges.push_back(builder.open_ranges[0]);  // the same thread again
  EXPECT_EQ(read_bytes(builder.build()).threads.at(0).ranges.size(), format::kMostOpenRanges);
}

TEST(ReaderRanges, ElementsOfOtherSizesAreReadAsFarAsTheyGo) {
  for (const uint32_t bytes : {1U, 8U, 64U, 100U, 1056U}) {
    TraceBuilder builder = good();
    std::string file = builder.build();
    format::FileHeader header{};
    std::memcpy(&header, file.data(), sizeof header);
    for (format::Section& section : header.sections) {
      if (section.kind == format::kOpenRanges) {
        section.element_bytes = bytes;
        section.bytes = section.bytes / bytes * bytes;
      }
    }
    std::memcpy(file.data(), &header, sizeof header);
    EXPECT_LE(read_bytes(file).threads.at(0).ranges.size(), 2u) << bytes;
  }
}

TEST(ReaderRanges, NamesThatDoNotFitTheirDefinitionAreErrors) {
  TraceBuilder builder;
  builder.add_definition(format::RangeNameDefinition{{}, 1, 0, UINT32_MAX, 0}, format::kRangeName,
                         "x");
  builder.add_definition(format::RangeNameDefinition{{}, 2, UINT32_MAX, 1, 0}, format::kRangeName,
                         "x");
  builder.add_definition(format::RangeNameDefinition{{}, 0, 0, 1, 0}, format::kRangeName, "x");

  const ProcessTrace trace = read_bytes(builder.build());
  EXPECT_EQ(trace.errors.size(), 3u);
  EXPECT_TRUE(trace.ranges.empty());
}

TEST(ReaderRanges, LongNamesAreCut) {
  TraceBuilder builder;
  define(builder, 1, std::string(900, 'd'), std::string(900, 'n'));
  const ProcessTrace trace = read_bytes(builder.build());
  EXPECT_EQ(trace.ranges.at(1).domain, std::string(512, 'd'));
  EXPECT_EQ(trace.ranges.at(1).name, std::string(512, 'n'));
}

TEST(ReaderRanges, OfOlderTracesAreNone) {
  TraceBuilder builder;
  builder.add_thread(1, 0);
  std::string file = builder.build();
  format::FileHeader header{};
  std::memcpy(&header, file.data(), sizeof header);
  for (format::Section& section : header.sections) {
    section.kind = section.kind == format::kOpenRanges ? 999 : section.kind;
  }
  std::memcpy(file.data(), &header, sizeof header);
  const ProcessTrace trace = read_bytes(file);
  EXPECT_TRUE(trace.errors.empty());
  EXPECT_TRUE(trace.threads.at(0).ranges.empty());
}

}  // namespace
}  // namespace traintrace
