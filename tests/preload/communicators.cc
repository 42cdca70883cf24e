// test: timeout=240
// More communicators in a process's life than the table has places; and calls that NCCL refuses.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::Folder;
using preload::RawTrace;

ncclComm_t make() {
  ncclUniqueId id;
  ncclComm_t communicator = nullptr;
  ncclGetUniqueId(&id);
  ncclCommInitRank(&communicator, 1, id, 0);
  return communicator;
}

// arguments: made in all, alive at a time
ROLE(many) {
  const int all = std::atoi(arguments.at(0).c_str());
  const int alive = std::atoi(arguments.at(1).c_str());
  void* memory = nullptr;
  cudaMalloc(&memory, 256);
  std::vector<ncclComm_t> communicators(static_cast<size_t>(alive));
  for (int i = 0; i < all; ++i) {
    ncclComm_t& place = communicators[static_cast<size_t>(i % alive)];
    if (place != nullptr && ncclCommDestroy(place) != ncclSuccess) {
      return 1;
    }
    place = make();
    if (place == nullptr || ncclAllReduce(memory, memory, static_cast<size_t>(i % 64 + 1),
                                          ncclFloat, ncclSum, place, nullptr) != ncclSuccess) {
      return 1;
    }
  }
  cudaDeviceSynchronize();
  for (ncclComm_t communicator : communicators) {
    ncclCommDestroy(communicator);
  }
  return 0;
}

// A configuration that was never initialised is refused by NCCL, which reads nothing of it.
ROLE(refused) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  for (const int byte : {0x5a, 0xff, 0}) {
    ncclConfig_t config;
    std::memset(&config, byte, sizeof config);
    ncclComm_t communicator = nullptr;
    if (ncclCommInitRankConfig(&communicator, 1, id, 0, &config) != ncclInvalidArgument) {
      return 1;
    }
  }
  return 0;
}

TEST(Communicators, ConfigurationsThatNcclRefusesAreNotRead) {
  const Folder folder;
  preload::Program program = preload::self("refused");
  program.environment = {{"TRAINTRACE_DIR", folder.path()}};
  for (const bool traced : {false, true}) {
    program.traced = traced;
    EXPECT_TRUE(preload::run(program).exited_with(0)) << traced;
  }
}

struct Recorded {
  RawTrace trace;
  std::string dump;
  std::string verdict;
};

Recorded record(int all, int alive) {
  const Folder folder;
  preload::Program program = preload::self("many", {std::to_string(all), std::to_string(alive)});
  program.environment = {{"TRAINTRACE_DIR", folder.path()}};
  EXPECT_TRUE(preload::run(program).exited_with(0));
  const auto tool = [&](const char* command) {
    preload::Program reader;
    reader.traced = false;
    reader.command = {TRAINTRACE_BINARY, command, folder.path()};
    return preload::run(reader).output;
  };
  return {preload::read_raw(folder.traces().at(0)), tool("dump"), tool("analyze")};
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(Communicators, MoreThanThereArePlacesAreAllKnown) {
  constexpr int kAll = 3000;
  const Recorded recorded = record(kAll, 400);
  EXPECT_EQ(recorded.trace.problems, std::vector<std::string>());
  EXPECT_EQ(recorded.trace.stats, (std::map<std::string, uint64_t>()));
  // Each operation is of another communicator, and each of these is described.
  std::set<uint64_t> numbers;
  for (const auto& record : recorded.trace.of("ncclAllReduce", traintrace::format::kEnter)) {
    numbers.insert(recorded.trace.value(record, "comm"));
  }
  EXPECT_EQ(numbers.size(), static_cast<size_t>(kAll));
  EXPECT_EQ(count_of(recorded.dump, "\ncommunicator "), static_cast<size_t>(kAll));
  EXPECT_EQ(count_of(recorded.dump, " collectives=1 "), static_cast<size_t>(kAll));
  EXPECT_NE(recorded.verdict.find("othing is wrong"), std::string::npos) << recorded.verdict;
}

TEST(Communicators, MoreThanFitAtATimeAreSaid) {
  const Recorded recorded = record(700, 600);
  EXPECT_EQ(recorded.trace.problems, std::vector<std::string>());
  ASSERT_TRUE(recorded.trace.stats.contains("communicators-full"));
  EXPECT_NE(recorded.verdict.find("communicators-full"), std::string::npos) << recorded.verdict;
}

}  // namespace
