// Made-up ranks that seem to run: traces whose words change as if each rank made a step of four
// collectives every 100 ms.
//   live_ranks FOLDER [RANKS=1024] [SLOW=-1] [STUCK=-1]
// SLOW enters each collective 30 ms after the others.  STUCK polls for ever instead of its 40th,
// and the others wait.  Writes "ready" once all are there, and ends with its stdin.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <vector>

#include "tests/unit/trace_builder.h"

namespace traintrace::testing {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kStepNs = 100 * kMs;
constexpr uint64_t kPerStep = 4;
constexpr uint64_t kStuckAt = 40;
constexpr uint64_t kLateNs = 30 * kMs;
constexpr uint16_t kAllReduce = 7;
constexpr uint16_t kQuery = 8;
constexpr int kRanksPerHost = 8;

uint64_t clock_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

uint64_t now() {
  return clock_ns(CLOCK_MONOTONIC);
}

struct Who {
  int ranks = 1024, slow = -1, stuck = -1;
};

// Of this process: whoever asks the kernel finds it running.
void identify(format::FileHeader& header) {
  std::ifstream stat("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(stat), {}};
  std::string word;
  std::istringstream rest(text.substr(text.rfind(')') + 2));
  constexpr int kStartTime = 20;  // words after the name
  for (int i = 0; i < kStartTime; ++i) {
    rest >> word;
  }
  header.pid = getpid();
  header.start_time = std::stoull(word);
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string id;
  boot >> id;
  std::erase(id, '-');
  constexpr size_t kHalf = 16;
  for (size_t half = 0; half < 2; ++half) {
    uint8_t bytes[8] = {};
    for (size_t i = 0; i < 8; ++i) {
      bytes[i] = static_cast<uint8_t>(std::stoul(id.substr(half * kHalf + 2 * i, 2), nullptr, 16));
    }
    std::memcpy(&header.boot_id[half], bytes, sizeof bytes);
  }
  struct stat space = {};
  header.pid_namespace = ::stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}

class LiveRank {
 public:
  LiveRank(const std::string& folder, const Who& who, int rank, uint64_t began)
      : who_(who), rank_(rank), began_(began) {
    TraceBuilder builder;
    builder.schema =
        "traintrace 4\ncall 7 ncclAllReduce nccl collective in:comm:communicator in:seq:decimal "
        "in:count:decimal in:type:datatype in:op:redop\ncall 8 cudaStreamQuery runtime query\n";
    format::FileHeader& header = builder.header;
    identify(header);
    const std::string host = "node" + std::to_string(1000 + rank / kRanksPerHost).substr(1);
    std::memset(header.host, 0, sizeof header.host);
    std::copy(host.begin(), host.end(), header.host);
    header.clock = format::kMonotonicNs;
    header.first_anchor = {began, began, clock_ns(CLOCK_REALTIME) - (now() - began)};
    header.anchors[0] = header.anchors[1] = header.first_anchor;
    header.anchor_index = 0;
    header.armed_ticks = header.last_alive_ticks = began;
    header.run_key = 0x7a7a;
    for (const auto& [key, value] :
         {std::pair<std::string, std::string>{"env.RANK", std::to_string(rank)},
          {"env.WORLD_SIZE", std::to_string(who.ranks)}}) {
      builder.add_definition(
          format::FactDefinition{
              {}, static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())},
          format::kFact, key + value);
    }
    builder.add_thread(1, 0);
    builder.threads[0].started_ticks = began;
    format::Communicator dp{};
    dp.used = 1;
    dp.origin = format::kInitRank;
    dp.id = 0x9f3c;
    dp.size = who.ranks;
    dp.rank = rank;
    dp.device = rank % kRanksPerHost;
    dp.flags = format::kInitDone;
    dp.created_ticks = dp.ready_ticks = began;
    std::strcpy(dp.name, "dp");
    builder.communicators.push_back(dp);
    builder.tensor_devices.resize(kRanksPerHost);
    format::TensorDevice& device = builder.tensor_devices.at(static_cast<size_t>(dp.device));
    device.ticks = began;
    device.allocated = (uint64_t{40} << 30) + (static_cast<uint64_t>(rank) << 20);
    device.reserved = uint64_t{60} << 30;
    device.peak_allocated = device.allocated;
    const std::string bytes = builder.build();
    for (uint32_t i = 0; i < builder.header.section_count; ++i) {
      const format::Section& section = builder.header.sections[i];
      threads_ = section.kind == format::kThreads ? section.offset : threads_;
      communicators_ = section.kind == format::kCommunicators ? section.offset : communicators_;
      operations_ = section.kind == format::kOperations ? section.offset : operations_;
    }
    const std::string path = folder + "/" + host + "." + std::to_string(10'000 + rank) + ".trace";
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      std::perror(path.c_str());
      std::exit(2);
    }
    memory_ = static_cast<char*>(
        mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
  }

  // As the trace would be at that time.
  void be_at(uint64_t time) {
    auto& header = *reinterpret_cast<format::FileHeader*>(memory_);
    auto& thread = *reinterpret_cast<format::Thread*>(memory_ + threads_);
    auto& dp = *reinterpret_cast<format::Communicator*>(memory_ + communicators_);
    header.last_alive_ticks = time;
    const uint64_t own = rank_ == who_.slow ? kLateNs : 0;
    uint64_t wanted = time < began_ + own ? 0 : (time - began_ - own) * kPerStep / kStepNs;
    if (who_.stuck >= 0) {
      wanted = std::min(wanted, rank_ == who_.stuck ? kStuckAt - 1 : kStuckAt);
    }
    for (uint64_t number = dp.collectives + 1; number <= wanted; ++number) {
      // Four collectives of different sizes one after the other.
      const uint64_t at = began_ + own + number * kStepNs / kPerStep;
      auto& slot = *reinterpret_cast<format::Operation*>(
          memory_ + operations_ +
          (dp.operations % format::kRecentOperations) * sizeof(format::Operation));
      format::Operation operation{};
      operation.enter_ticks = operation.leave_ticks = at;
      operation.sequence = number;
      operation.count = 1024 * (1 + number % kPerStep);
      operation.call = kAllReduce;
      operation.data_type = 7;
      operation.flags = number == kStuckAt && who_.stuck >= 0
                            ? format::kLaunched
                            : format::kLaunched | format::kFinished;
      operation.peer = -1;
      operation.index_low = static_cast<uint32_t>(dp.operations);
      slot = operation;
      dp.last_ticks = at;
      ++dp.operations;
      dp.collectives = number;
      thread.events += 2;
      thread.last_call = kAllReduce;
      thread.last_call_ticks = at;
    }
    if (who_.stuck >= 0 && wanted + (rank_ == who_.stuck ? 1 : 0) >= kStuckAt) {
      thread.last_call = kQuery;
      thread.last_call_ticks = thread.last_query_ticks = time;
      thread.queries += 1;
    }
  }

 private:
  const Who& who_;
  int rank_;
  uint64_t began_;
  char* memory_ = nullptr;
  uint64_t threads_ = 0, communicators_ = 0, operations_ = 0;
};

}  // namespace
}  // namespace traintrace::testing

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): ends the program
  using namespace traintrace::testing;
  if (argc < 2) {
    std::fputs("live_ranks FOLDER [RANKS] [SLOW] [STUCK]\n", stderr);
    return 2;
  }
  Who who;
  who.ranks = argc > 2 ? std::atoi(argv[2]) : who.ranks;
  who.slow = argc > 3 ? std::atoi(argv[3]) : who.slow;
  who.stuck = argc > 4 ? std::atoi(argv[4]) : who.stuck;
  std::filesystem::create_directories(argv[1]);
  constexpr uint64_t kHistory = 20'000 * kMs;  // it has run for so long already
  const uint64_t began = now() - kHistory;
  std::vector<LiveRank> ranks;
  ranks.reserve(static_cast<size_t>(who.ranks));
  for (int rank = 0; rank < who.ranks; ++rank) {
    ranks.emplace_back(argv[1], who, rank, began);
  }
  for (bool told = false;; told = true) {
    const uint64_t time = now();
    for (LiveRank& rank : ranks) {
      rank.be_at(time);
    }
    if (!told) {
      std::puts("ready");
      std::fflush(stdout);
    }
    pollfd end = {STDIN_FILENO, POLLIN, 0};
    if (poll(&end, 1, 100) > 0) {
      return 0;
    }
  }
}
