// Whose GPU is which: by UUID, else by host and PCI bus id, never by number.
// uses: analyzer
#include <gtest/gtest.h>

#include "analyzer/detectors/device/rank_gpus.h"

namespace traintrace {
namespace {

// One rank for each process; its device 0 has this UUID and bus id.
struct Seat {
  std::string host, uuid, pci;
};

Run run_of(const std::vector<Seat>& seats) {
  Run run;
  for (const Seat& seat : seats) {
    ProcessTrace& trace = run.processes.emplace_back();
    trace.host = seat.host;
    trace.armed = 100;
    trace.last_alive = 200;
    if (!seat.uuid.empty()) {
      trace.facts["gpu-0-uuid"] = seat.uuid;
    }
    if (!seat.pci.empty()) {
      trace.facts["gpu-0-pci"] = seat.pci;
    }
    trace.communicators.emplace_back().device = 0;
    RankState& state = run.ranks.emplace_back();
    state.rank = Rank{static_cast<int>(run.ranks.size()) - 1};
    state.process = run.processes.size() - 1;
  }
  return run;
}

GpuHistory history(const std::string& host, const std::string& uuid, const std::string& pci) {
  GpuHistory gpu;
  gpu.host = host;
  gpu.uuid = uuid;
  gpu.pci = pci;
  return gpu;
}

using Pairs = std::vector<std::pair<std::string, std::string>>;  // ranks, UUID or bus id

Pairs joined(const Run& run, std::vector<GpuHistory> gpus) {
  const TelemetryRecord record = {std::move(gpus), {}};
  Pairs pairs;
  for (const RankGpu& gpu : gpus_of_ranks(run, record)) {
    pairs.emplace_back(rank_list(gpu.ranks),
                       gpu.history->uuid.empty() ? gpu.history->pci : gpu.history->uuid);
  }
  return pairs;
}

TEST(TelemetryRanks, AreJoinedByUuidWhateverTheNumber) {
  const auto run = run_of({{"a", "GPU-7", "0000:01:00.0"}, {"a", "GPU-3", "0000:02:00.0"}});
  EXPECT_EQ(
      joined(run, {history("a", "GPU-3", "0000:02:00.0"), history("a", "GPU-5", "0000:03:00.0"),
                   history("a", "GPU-7", "0000:01:00.0")}),
      (Pairs{{"0", "GPU-7"}, {"1", "GPU-3"}}));
}

TEST(TelemetryRanks, AreJoinedByBusIdOnTheirHostOnly) {
  const auto run = run_of({{"a", "", "0000:01:00.0"}, {"b", "", "0000:01:00.0"}});
  EXPECT_EQ(joined(run, {history("b", "GPU-3", "0000:01:00.0")}), (Pairs{{"1", "GPU-3"}}));
  // Where both say UUIDs and these differ, equal bus ids are an accident.
  EXPECT_EQ(
      joined(run_of({{"a", "GPU-1", "0000:01:00.0"}}), {history("a", "GPU-2", "0000:01:00.0")}),
      Pairs{});
  EXPECT_EQ(joined(run_of({{"a", "GPU-1", "0000:01:00.0"}}), {history("a", "", "0000:01:00.0")}),
            (Pairs{{"0", "0000:01:00.0"}}));
}

TEST(TelemetryRanks, ShareAGpu) {
  EXPECT_EQ(joined(run_of({{"a", "GPU-1", ""}, {"a", "GPU-1", ""}}), {history("a", "GPU-1", "")}),
            (Pairs{{"0,1", "GPU-1"}}));
}

TEST(TelemetryRanks, WithoutFactsAreJoinedWithNothing) {
  EXPECT_EQ(joined(run_of({{"a", "", ""}}),
                   {history("a", "GPU-1", ""), history("a", "", "0000:01:00.0")}),
            Pairs{});
}

TEST(TelemetryRanks, MedianIsThatOfTheOthers) {
  const std::vector<std::optional<double>> values = {9, 1, std::nullopt, 3};
  EXPECT_EQ(median_of_others(values, 0), 3);
  EXPECT_EQ(median_of_others(values, 3), 9);
  EXPECT_EQ(median_of_others({5}, 0), 0);
}

}  // namespace
}  // namespace traintrace
