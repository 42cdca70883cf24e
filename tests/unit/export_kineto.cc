// uses: analyzer
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "analyzer/exporters/kineto.h"
#include "analyzer/importers/kineto/kineto.h"
#include "analyzer/reporters/tables/report_table.h"
#include "analyzer/timeline/blocking.h"
#include "analyzer/timeline/idle.h"

namespace traintrace {
namespace {

// None of the names says what the call is.
constexpr HostCallKind kKinds[] = {HostCallKind::kOther, HostCallKind::kBlocking,
                                   HostCallKind::kAllocator, HostCallKind::kLoader,
                                   HostCallKind::kPeerWait};

class Random {
 public:
  explicit Random(unsigned seed) : source_(seed) {}
  int64_t below(int64_t end) {
    return static_cast<int64_t>(source_() % static_cast<uint64_t>(end));
  }

 private:
  std::mt19937_64 source_;
};

Timeline random_timeline(unsigned seed) {
  Random random(seed);
  Timeline timeline;
  timeline.rank = 3;
  timeline.world_size = 8;
  timeline.base_ns = 1'700'000'000'000'000'123;
  timeline.threads = {"1", "2"};
  timeline.names = {"train.py(7): step", "gemm", "ncclDevKernel_AllReduce", "Memcpy HtoD"};
  for (size_t i = 0; i < std::size(kKinds); ++i) {
    timeline.names.push_back("call" + std::to_string(i));
  }
  int64_t now = 1000;
  for (uint64_t i = 1; i <= 400; ++i) {
    // In no order that a kind of call or thread could be told by.
    for (int64_t calls = random.below(3); calls > 0; --calls) {
      const auto kind = static_cast<size_t>(random.below(std::size(kKinds)));
      const int64_t length = random.below(30'000);
      timeline.calls.push_back({now, now + length, 0, static_cast<uint32_t>(4 + kind),
                                static_cast<uint32_t>(random.below(2)), kKinds[kind]});
      now += length + random.below(3000);
    }
    if (i % 50 == 0) {
      timeline.step_starts.push_back(now);
    }
    timeline.calls.push_back({now, now + 5000, i, 4, 0, HostCallKind::kOther,
                              static_cast<int16_t>(random.below(3) - 1), 0});
    const int64_t start = now + random.below(20'000);
    const auto kind = static_cast<WorkKind>(random.below(3));
    timeline.work.push_back({start, start + random.below(40'000), i,
                             1 + static_cast<uint32_t>(kind), static_cast<int32_t>(random.below(3)),
                             0, kind});
    now += 5000 + random.below(10'000);
  }
  std::stable_sort(timeline.work.begin(), timeline.work.end(),
                   [](const GpuWork& a, const GpuWork& b) { return a.start_ns < b.start_ns; });
  timeline.knows_waits = seed % 2 == 0;
  for (uint64_t i = 2; i <= 400 && timeline.knows_waits; ++i) {
    timeline.waits.push_back({i, random.below(20) == 0   ? WorkWait::kUnknown
                                 : random.below(20) == 0 ? WorkWait::kPeers
                                                         : i - 1});
    timeline.messages.push_back({i, 0xfedcba9876543210 + i, 1, static_cast<int32_t>(i % 7),
                                 random.below(1000) - 1, random.below(2) == 0});
  }
  return timeline;
}

std::vector<std::string> texts(const std::vector<PeerMessage>& messages) {
  std::vector<std::string> result;
  result.reserve(messages.size());
  for (const PeerMessage& each : messages) {
    result.push_back(fmt::format("{} {} {} {} {} {}", each.correlation, each.communicator,
                                 each.rank, each.peer, each.bytes, each.receives));
  }
  return result;
}

TEST(ExportKineto, FiguresOfRanksAndStepsSurvive) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("export_kineto." + std::to_string(getpid()));
  for (unsigned seed = 0; seed < 20; ++seed) {
    Timeline timeline = random_timeline(seed);
    timeline.source = path;
    std::ofstream(path, std::ios::binary) << kineto_trace(timeline);
    const KinetoTrace read = read_kineto(path);
    ASSERT_TRUE(read.errors.empty());
    const Timeline& again = read.timeline;
    EXPECT_EQ(report_json(report_by_rank({&again, 1})),
              report_json(report_by_rank({&timeline, 1})));
    EXPECT_EQ(report_json(report_by_step({&again, 1})),
              report_json(report_by_step({&timeline, 1})));
    EXPECT_EQ(again.knows_waits, timeline.knows_waits);
    EXPECT_EQ(again.waits, timeline.waits);
    EXPECT_TRUE(std::equal(
        again.calls.begin(), again.calls.end(), timeline.calls.begin(), timeline.calls.end(),
        [](const HostCall& a, const HostCall& b) { return a.device == b.device; }));
    EXPECT_EQ(texts(again.messages), texts(timeline.messages));
    if (timeline.knows_waits) {
      EXPECT_NE(length_ns(*blocking_communication(timeline, timeline.work)), 0);
    }
    // All causes that calls decide are there, so that none can be lost unseen.
    const IdleTimes idle = idle_by_cause(timeline, timeline.work);
    for (const IdleCause cause : {IdleCause::kDataStarvation, IdleCause::kSyncInduced,
                                  IdleCause::kAllocator, IdleCause::kHostPeerWait}) {
      EXPECT_NE(idle[static_cast<size_t>(cause)], 0);
    }
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace traintrace
