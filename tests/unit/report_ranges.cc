// uses: analyzer
// `report --by=range`.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "analyzer/reporters/tables/report_table.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

// "RANGE rank=R count=.. ..", most time first; what is not known is left out.
std::vector<std::string> rows_of(const std::string& text) {
  const Result<DumpText> dump = parse_dump(text, "test");
  EXPECT_TRUE(dump) << dump.error().message;
  std::vector<RankedProcess> processes;
  for (const ProcessTrace& trace : dump->processes) {
    processes.push_back({&trace, {static_cast<int64_t>(processes.size())}});
  }
  const ReportTable table = report_by_range(processes);
  std::vector<std::string> rows;
  for (const auto& cells : table.rows) {
    std::string& row = rows.emplace_back(std::get<std::string>(cells.at(0)));
    for (size_t i = 1; i < cells.size(); ++i) {
      if (const auto* number = std::get_if<int64_t>(&cells[i])) {
        row += " " + table.columns[i] + "=" + std::to_string(*number);
      }
    }
  }
  return rows;
}
using Rows = std::vector<std::string>;

constexpr const char* kProcess =
    "start 0\nprocess 0 rank=0 pid=5\nrange 1 step\nrange 2 forward\nrange 3 forward domain=my\n"
    "thread 1 tid=5\nthread 2 tid=6\n";

TEST(ReportByRange, AddsUpTimesOfEachName) {
  EXPECT_EQ(rows_of(std::string(kProcess) + "+1 0/1 * nvtxRangePush range=1\n"
                                            "+1.1 0/1 * nvtxRangePush range=2=forward\n"
                                            "+1.2 0/2 * nvtxRangePush range=3\n"
                                            "+1.3 0/1 * nvtxRangePop range=2\n"
                                            "+1.4 0/1 * nvtxRangePush range=2\n"
                                            "+1.5 0/1 * nvtxRangePop range=2\n"
                                            "+1.6 0/2 * nvtxRangePop range=3\n"
                                            "+2 0/1 * nvtxRangePop range=1\n"),
            (Rows{"step rank=0 count=1 open_count=0 host_ns=1000000000 mean_ns=1000000000 "
                  "max_ns=1000000000",
                  "my/forward rank=0 count=1 open_count=0 host_ns=400000000 mean_ns=400000000 "
                  "max_ns=400000000",
                  "forward rank=0 count=2 open_count=0 host_ns=300000000 mean_ns=150000000 "
                  "max_ns=200000000"}));
}

TEST(ReportByRange, CountsWorkWithAllThatIsAroundItsLaunch) {
  const std::string work = " gpu_stream=7 function=0x5 grid=1x1x1 block=1x1x1\n";
  EXPECT_EQ(rows_of(kProcess +
                    ("+1 0/1 * nvtxRangePush range=1\n+1.1 0/1 * nvtxRangePush range=2\n"
                     "+1.1 0/1 * nvtxRangePush range=2\n"  // again: its work counts once
                     "+1.2 0/1 * gpuLaunch correlation=11\n+1.2 0/2 * gpuLaunch correlation=12\n"
                     "+1.3 0/1 * nvtxRangePop range=2\n+1.3 0/1 * nvtxRangePop range=2\n"
                     "+1.4 0/1 * gpuLaunch correlation=13\n+2 0/1 * nvtxRangePop range=1\n"
                     "+3 0/2 * gpuKernel start=5 duration=100 correlation=11" +
                     work + "+3 0/2 * gpuKernel start=5 duration=1000 correlation=12" + work +
                     "+3 0/2 * gpuKernel start=5 duration=10 correlation=13" + work)),
            (Rows{"step rank=0 count=1 open_count=0 host_ns=1000000000 mean_ns=1000000000 "
                  "max_ns=1000000000 launch_count=2 gpu_ns=110",
                  "forward rank=0 count=2 open_count=0 host_ns=200000000 mean_ns=100000000 "
                  "max_ns=200000000 launch_count=1 gpu_ns=100"}));
}

// emit_nvtx(record_shapes=True): an operator is one row, whatever it works on.
TEST(ReportByRange, OperatorsOfPyTorchAreOneRowEach) {
  EXPECT_EQ(rows_of("start 0\nprocess 0 rank=0 pid=5\nthread 1 tid=5\n"
                    "range 1 \"aten::mm, sizes = [[2, 3]]\"\nrange 2 \"aten::mm, sizes = [[4]]\"\n"
                    "range 3 \"aten::mm, seq = 7, op_id = 12\"\nrange 4 \"forward, op_id = 5\"\n"
                    "range 5 \"eval, seq = last\"\n"
                    "+1 0/1 * nvtxRangePush range=1\n+1.1 0/1 * nvtxRangePop range=1\n"
                    "+1.2 0/1 * nvtxRangePush range=2\n+1.4 0/1 * nvtxRangePop range=2\n"
                    "+1.5 0/1 * nvtxRangePush range=3\n+1.6 0/1 * nvtxRangePop range=3\n"
                    "+1.7 0/1 * nvtxRangePush range=4\n+1.8 0/1 * nvtxRangePop range=4\n"
                    "open-range 1 at=+2 range=5\n"),
            (Rows{"aten::mm rank=0 count=3 open_count=0 host_ns=400000000 mean_ns=133333333 "
                  "max_ns=200000000",
                  "forward rank=0 count=1 open_count=0 host_ns=100000000 mean_ns=100000000 "
                  "max_ns=100000000",
                  "eval, seq = last rank=0 count=1 open_count=1 host_ns=0 mean_ns=0 max_ns=0"}));
}

TEST(ReportByRange, RangesOfTheJobsOwnKeepTheirNames) {
  const Rows rows = rows_of(
      "start 0\nprocess 0 rank=0 pid=5\nthread 1 tid=5\n"
      "range 1 \"attention, seq = 2048\"\nrange 2 \"attention, seq = 4096\"\n"
      "range 3 \"load, sizes = [train]\"\n"
      "open-range 1 at=+1 range=1\nopen-range 1 at=+2 range=2\nopen-range 1 at=+3 range=3\n");
  ASSERT_EQ(rows.size(), 3U);
  for (const char* const name :
       {"attention, seq = 2048 rank", "attention, seq = 4096 rank", "load, sizes = [train] rank"}) {
    EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [&](const std::string& row) {
      return row.starts_with(name);
    })) << name;
  }
}

TEST(ReportByRange, OpenOnesAreThoseOfTheTable) {
  EXPECT_EQ(rows_of(std::string(kProcess) + "open-range 1 at=+0.5 range=1\n"
                                            "open-range 1 at=+1 range=2\n"
                                            "+1 0/1 * nvtxRangePush range=2\n"),
            (Rows{"forward rank=0 count=1 open_count=1 host_ns=0 mean_ns=0 max_ns=0",
                  "step rank=0 count=1 open_count=1 host_ns=0 mean_ns=0 max_ns=0"}))
      << "of `step` the record was overwritten";
}

TEST(ReportByRange, StartedOnesEndByTheirHandleOnAnyThread) {
  EXPECT_EQ(rows_of(std::string(kProcess) + "+1 0/1 * nvtxRangeStart range=1 handle=0x1\n"
                                            "+1 0/1 * nvtxRangeStart range=2 handle=0x2\n"
                                            "+3 0/2 * nvtxRangeEnd handle=0x1\n"
                                            "+4 0/2 * nvtxRangeEnd handle=0x77\n"),
            (Rows{"step rank=0 count=1 open_count=0 host_ns=2000000000 mean_ns=2000000000 "
                  "max_ns=2000000000",
                  "forward rank=0 count=1 open_count=1 host_ns=0 mean_ns=0 max_ns=0"}));
}

TEST(ReportByRange, EndsWithoutABeginningCountWithoutTime) {
  EXPECT_EQ(rows_of(std::string(kProcess) + "+1 0/1 * nvtxRangePop range=1\n"
                                            "+2 0/1 * nvtxRangePop range=99\n"),
            (Rows{"range 99 rank=0 count=1 open_count=0 host_ns=0 mean_ns=0 max_ns=0",
                  "step rank=0 count=1 open_count=0 host_ns=0 mean_ns=0 max_ns=0"}));
}

TEST(ReportByRange, NestingWithoutAnEndTakesNoTimeToRead) {
  std::string text = kProcess;
  for (int i = 0; i < 100'000; ++i) {
    text += "+1 0/1 * nvtxRangePush range=1\n";
  }
  EXPECT_EQ(rows_of(text),
            Rows{"step rank=0 count=100000 open_count=0 host_ns=0 mean_ns=0 max_ns=0"});
}

// A damaged trace has any times.
TEST(ReportByRange, TimesDoNotOverflow) {
  Result<DumpText> dump = parse_dump(std::string(kProcess) +
                                         "+1 0/1 * nvtxRangeStart range=1 handle=1\n"
                                         "+1 0/1 * nvtxRangeStart range=1 handle=2\n"
                                         "+2 0/1 * nvtxRangeEnd handle=1\n"
                                         "+2 0/1 * nvtxRangeEnd handle=2\n",
                                     "test");
  ASSERT_TRUE(dump);
  ProcessTrace& trace = dump->processes.at(0);
  ASSERT_EQ(trace.events.size(), 4U);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < 4; ++i) {
    trace.events[i].enter = i < 2 ? std::numeric_limits<int64_t>::min() : kMost;
  }
  const RankedProcess processes[] = {{&trace, {0}}};
  const ReportTable table = report_by_range(processes);
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_EQ(std::get<int64_t>(table.rows[0].at(4)), kMost);
  EXPECT_EQ(std::get<int64_t>(table.rows[0].at(6)), kMost);
}

TEST(ReportByRange, WithoutRangesIsEmpty) {
  EXPECT_EQ(rows_of("ranks 0-1\n+1 0-1 calls cudaMalloc bytes=5\n"), Rows());
}

}  // namespace
}  // namespace traintrace
