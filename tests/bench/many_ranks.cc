// Writes the native traces of a job of one communicator in which a rank left out one collective in
// the middle.   many_ranks FOLDER [RANKS=1024] [COLLECTIVES=100000] [WITH_EVENTS=4]
// Only the first ranks and the culprit, the last but one, get event records: all of them would be
// 9 GB, of which the analyzer reads two.
#include <filesystem>
#include <string>

#include "format/hashes.h"
#include "tests/unit/trace_builder.h"

namespace traintrace::testing {
namespace {

constexpr uint16_t kAllReduce = 7;
constexpr uint64_t kId = 0x9f3c;
constexpr int kFloat = 7;

struct Job {
  int ranks = 1024;
  uint64_t collectives = 100'000;
  int with_events = 4;
  int culprit() const { return ranks - 2; }
};

uint64_t count_of(uint64_t number) {
  return 1024 + 64 * (number % 7);  // as of layers of several sizes
}

class RankTrace {
 public:
  RankTrace(const Job& job, int rank) : job_(job), rank_(rank) {
    builder_.schema =
        "traintrace 2\ncall 7 ncclAllReduce nccl collective in:comm:communicator in:seq:decimal "
        "in:count:decimal in:type:datatype in:op:redop\n";
    builder_.header.pid = 1000 + rank;
    builder_.header.start_time = uint64_t{1000} + static_cast<uint64_t>(rank);
    add_fact("env.RANK", std::to_string(rank));
    add_fact("env.WORLD_SIZE", std::to_string(job.ranks));
    builder_.communicators.push_back(communicator());
  }

  std::string build() {
    for (uint64_t number = 1; number <= job_.collectives; ++number) {
      if (rank_ != job_.culprit() || number != job_.collectives / 2) {
        issue(number);
      }
    }
    flush();
    builder_.add_thread(1, 2 * builder_.communicators[0].collectives);
    return builder_.build();
  }

 private:
  void add_fact(const std::string& key, const std::string& value) {
    builder_.add_definition(
        format::FactDefinition{
            {}, static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())},
        format::kFact, key + value);
  }

  format::Communicator communicator() const {
    format::Communicator made{};
    made.used = 1;
    made.origin = format::kInitRank;
    made.id = kId;
    made.size = job_.ranks;
    made.rank = rank_;
    made.flags = format::kInitDone;
    made.created_ticks = ticks_at_ms(1);
    made.ready_ticks = ticks_at_ms(2);
    std::strcpy(made.name, "dp");
    return made;
  }

  void issue(uint64_t number) {
    format::Communicator& own = builder_.communicators[0];
    const uint64_t sequence = ++own.collectives;
    own.hash = format::rolling_hash(own.hash, format::call_name_hash("ncclAllReduce"),
                                    count_of(number), kFloat, 0, -1);
    own.latest[sequence % 2] = {sequence, own.hash};
    if (sequence % format::kCheckpointEvery == 0) {
      own.checkpoints[sequence / format::kCheckpointEvery % format::kCheckpoints] = {sequence,
                                                                                     own.hash};
    }
    const uint64_t at_ms = 10 + number / 20;
    own.last_ticks = ticks_at_ms(at_ms);
    format::Operation& slot = builder_.operations[own.operations % format::kRecentOperations];
    slot = {.enter_ticks = ticks_at_ms(at_ms),
            .leave_ticks = ticks_at_ms(at_ms),
            .sequence = sequence,
            .count = count_of(number),
            .call = kAllReduce,
            .data_type = kFloat,
            .flags = format::kLaunched,
            .stack = 0,
            .reduction = 0,
            .group = 0,
            .peer = -1,
            .stream = 0,
            .index_low = static_cast<uint32_t>(own.operations),
            .position = 0};
    ++own.operations;
    if (rank_ < job_.with_events || rank_ == job_.culprit()) {
      add_event(enter(kAllReduce, at_ms, {1, sequence, count_of(number), kFloat, 0}));
      add_event(leave(kAllReduce, at_ms));
    }
  }

  void add_event(const std::vector<uint64_t>& record) {
    if ((words_ + record.size()) * 8 + sizeof(format::EventChunk) > kTestChunkBytes) {
      flush();
    }
    words_ += record.size();
    records_.push_back(record);
  }
  void flush() {
    if (!records_.empty()) {
      builder_.add_chunk(++ordinal_, 1, written_, records_);
      written_ += records_.size();
      records_.clear();
      words_ = 0;
    }
  }

  const Job& job_;
  int rank_;
  TraceBuilder builder_;
  std::vector<std::vector<uint64_t>> records_;
  size_t words_ = 0;
  uint64_t ordinal_ = 0;
  uint64_t written_ = 0;
};

}  // namespace
}  // namespace traintrace::testing

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): ends the program
  using namespace traintrace::testing;
  if (argc < 2) {
    std::fputs("many_ranks FOLDER [RANKS] [COLLECTIVES] [WITH_EVENTS]\n", stderr);
    return 2;
  }
  Job job;
  job.ranks = argc > 2 ? std::atoi(argv[2]) : job.ranks;
  job.collectives = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : job.collectives;
  job.with_events = argc > 4 ? std::atoi(argv[4]) : job.with_events;
  std::filesystem::create_directories(argv[1]);
  for (int rank = 0; rank < job.ranks; ++rank) {
    std::ofstream(std::string(argv[1]) + "/node." + std::to_string(1000 + rank) + ".trace",
                  std::ios::binary)
        << RankTrace(job, rank).build();
  }
  return 0;
}
