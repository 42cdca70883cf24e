// TRAINTRACE_PAYLOAD=small and check: what lay in the buffers of NCCL's operations before and after
// them, against what the program had put there.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>
#include <tuple>

#include "interpose/payload/check_kernel.h"
#include "support/gpu_states.h"
#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using namespace preload;
namespace format = traintrace::format;
using Arguments = std::vector<std::string>;

#define MUST(call)   \
  do {               \
    if ((call) != 0) \
      return 1;      \
  } while (false)

constexpr size_t kCount = 3000;  // elements of a part; more than one lane's, less than a block's

float value_of(int rank, size_t index) {
  return static_cast<float>(rank + 1) + static_cast<float>(index) / 64;
}

// A rank of two and memory for twice kCount elements in two places.
struct Member {
  Rank rank;
  int number = 0;
  float* from = nullptr;
  float* into = nullptr;

  bool make(const Arguments& arguments) {
    number = std::stoi(arguments.at(1));
    std::vector<float> values(2 * kCount);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = value_of(number, i);
    }
    const size_t bytes = values.size() * sizeof(float);
    return rank.make(arguments.at(0), std::stoi(arguments.at(2)), number) &&
           cudaMalloc(reinterpret_cast<void**>(&from), bytes) == cudaSuccess &&
           cudaMalloc(reinterpret_cast<void**>(&into), bytes) == cudaSuccess &&
           cudaMemset(into, 0, bytes) == cudaSuccess &&
           cudaMemcpy(from, values.data(), bytes, cudaMemcpyHostToDevice) == cudaSuccess &&
           cudaDeviceSynchronize() == cudaSuccess;
  }
};

ROLE(each_collective) {
  Member me;
  MUST(!me.make(arguments));
  const auto& [comm, stream, data] = me.rank;
  MUST(ncclAllReduce(me.from, me.into, kCount, ncclFloat32, ncclSum, comm, stream));
  MUST(ncclReduce(me.from, me.into, kCount, ncclFloat32, ncclMax, 1, comm, stream));
  MUST(ncclBroadcast(me.from, me.into, kCount, ncclFloat32, 1, comm, stream));
  MUST(ncclAllGather(me.from, me.into, kCount, ncclFloat32, comm, stream));
  MUST(ncclReduceScatter(me.from, me.into, kCount, ncclFloat32, ncclSum, comm, stream));
  MUST(cudaStreamSynchronize(stream));
  return 0;
}

ROLE(messages) {
  Member me;
  MUST(!me.make(arguments));
  const auto& [comm, stream, data] = me.rank;
  const int other = 1 - me.number;
  MUST(ncclGroupStart());
  MUST(ncclSend(me.from, kCount, ncclFloat32, other, comm, stream));
  MUST(ncclRecv(me.into, kCount, ncclFloat32, other, comm, stream));
  MUST(ncclGroupEnd());
  MUST(cudaStreamSynchronize(stream));
  return 0;
}

ROLE(small_and_large) {
  Member me;
  MUST(!me.make(arguments));
  const auto& [comm, stream, data] = me.rank;
  MUST(ncclAllReduce(me.from, me.into, 16, ncclFloat32, ncclSum, comm, stream));
  MUST(ncclAllReduce(me.from, me.into, 17, ncclFloat32, ncclSum, comm, stream));
  MUST(cudaStreamSynchronize(stream));
  return 0;
}

ROLE(not_finite) {
  Member me;
  MUST(!me.make(arguments));
  const auto& [comm, stream, data] = me.rank;
  const float bad[] = {NAN, 1, -INFINITY, INFINITY};
  MUST(cudaMemcpy(me.from, bad, sizeof bad, cudaMemcpyHostToDevice));
  MUST(cudaDeviceSynchronize());  // so few bytes may still be on their way, and not on `stream`
  MUST(ncclAllReduce(me.from, me.from, kCount, ncclFloat32, ncclSum, comm, stream));
  MUST(cudaStreamSynchronize(stream));
  return 0;
}

ROLE(replays) {
  Member me;
  MUST(!me.make(arguments));
  return me.rank.reduce_and_replay() ? 0 : 1;
}

// NCCL gathers bytes, wherever they lie.
ROLE(crooked) {
  Member me;
  MUST(!me.make(arguments));
  const auto& [comm, stream, data] = me.rank;
  auto* const from = reinterpret_cast<char*>(me.from) + 1;
  MUST(ncclAllGather(from, me.into, kCount, ncclFloat32, comm, stream));
  MUST(ncclAllGather(from, me.into, kCount, ncclUint8, comm, stream));
  MUST(cudaStreamSynchronize(stream));
  return 0;
}

// More than the ring has room for at a time, none of them waited for.  Maxima have no sketches, so
// that the trace has room for all.
ROLE(many) {
  Member me;
  MUST(!me.make(arguments));
  const auto& [comm, stream, data] = me.rank;
  for (int i = 0; i < 20000; ++i) {
    MUST(ncclAllReduce(me.from, me.into, 4, ncclFloat32, ncclMax, comm, stream));
  }
  MUST(cudaStreamSynchronize(stream));
  return 0;
}

// As in NCCL's own example: when the id is made, nothing has called CUDA yet.
ROLE(makes_the_id_first) {
  Rank rank;
  ncclUniqueId id = {};
  MUST(ncclGetUniqueId(&id));
  MUST(cudaSetDevice(0));
  MUST(cudaFree(nullptr));
  MUST(ncclCommInitRank(&rank.comm, 1, id, 0));
  MUST(!rank.make_rest());
  MUST(!rank.reduce());
  MUST(cudaStreamSynchronize(rank.stream));
  return 0;
}

// The other one never comes.
ROLE(waits_for_ever) {
  Member me;
  MUST(!me.make(arguments));
  const auto& [comm, stream, data] = me.rank;
  MUST(ncclAllReduce(me.from, me.into, kCount, ncclFloat32, ncclSum, comm, stream));
  MUST(cudaStreamSynchronize(stream));
  if (me.number == 0) {
    MUST(ncclAllReduce(me.from, me.into, kCount, ncclFloat32, ncclSum, comm, stream));
  }
  usleep(1'500'000);
  raise(SIGKILL);
  return 1;
}

std::vector<RawTrace> traces_of(const std::string& role, const char* level, int ranks = 2) {
  const Folder folder;
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<size_t>(ranks));
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Program program = self(role, {folder.path(), std::to_string(rank), std::to_string(ranks)});
      program.environment = {{"TRAINTRACE_DIR", folder.path() + "/traces/" + std::to_string(rank)},
                             {"TRAINTRACE_PAYLOAD", level}};
      outcomes[static_cast<size_t>(rank)] = run(program);
    });
  }
  for (std::jthread& thread : threads) {
    thread.join();
  }
  std::vector<RawTrace> traces;
  for (int rank = 0; rank < ranks; ++rank) {
    const Outcome& outcome = outcomes[static_cast<size_t>(rank)];
    EXPECT_TRUE(outcome.exited_with(0) || outcome.killed_by(SIGKILL)) << outcome.status;
    EXPECT_EQ(outcome.errors, "");
    for (const auto& entry :
         std::filesystem::directory_iterator(folder.path() + "/traces/" + std::to_string(rank))) {
      traces.push_back(read_raw(entry.path()));
      EXPECT_EQ(traces.back().problems, std::vector<std::string>());
    }
  }
  EXPECT_EQ(traces.size(), static_cast<size_t>(ranks));
  traces.resize(static_cast<size_t>(ranks));
  return traces;
}

// What a record says, and what it is to say.
struct Seen {
  uint64_t operation, side, part, parts, count, nans, infinities, hash;
  double largest, sum;
  auto fields() const {
    return std::tie(operation, side, part, parts, count, nans, infinities, hash, largest, sum);
  }
  bool operator==(const Seen& other) const { return fields() == other.fields(); }
};

std::ostream& operator<<(std::ostream& out, const Seen& seen) {
  std::apply([&](const auto&... field) { ((out << field << " "), ...); }, seen.fields());
  return out;
}

// Of the tracer's own thread and of the one that ended the process.
std::vector<RawRecord> records_of(const RawTrace& trace) {
  std::vector<RawRecord> records = trace.of("payloadCheck", format::kMoment);
  std::stable_sort(records.begin(), records.end(),
                   [](const RawRecord& a, const RawRecord& b) { return a.ticks < b.ticks; });
  return records;
}

std::vector<Seen> seen_in(const RawTrace& trace) {
  std::vector<Seen> all;
  for (const RawRecord& record : records_of(trace)) {
    const uint64_t part = trace.value(record, "part");
    all.push_back({trace.value(record, "operation"), part >> 48, part & 0xffffffff,
                   part >> 32 & 0xffff, trace.value(record, "count"), trace.value(record, "nan"),
                   trace.value(record, "inf"), trace.value(record, "hash"),
                   std::bit_cast<double>(trace.value(record, "largest")),
                   std::bit_cast<double>(trace.value(record, "sum"))});
  }
  return all;
}

// Exact: the values are few enough sixty-fourths.
Seen expected(uint64_t operation, uint64_t side, std::vector<float> values, uint64_t part = 0,
              uint64_t parts = 1) {
  Seen seen = {operation, side, part, parts, values.size(), 0, 0, 0, 0, 0};
  for (size_t i = 0; i < values.size(); ++i) {
    seen.hash += format::payload_hash(i, std::bit_cast<uint32_t>(values[i]));
    if (std::isnan(values[i])) {
      ++seen.nans;
    } else if (std::isinf(values[i])) {
      ++seen.infinities;
    } else {
      seen.sum += double{values[i]};
      seen.largest = std::max(seen.largest, std::abs(double{values[i]}));
    }
  }
  return seen;
}

std::vector<float> own(int rank, size_t first = 0, size_t count = kCount) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = value_of(rank, first + i);
  }
  return values;
}

std::vector<float> sum(size_t first = 0, size_t count = kCount) {
  std::vector<float> values = own(0, first, count);
  const std::vector<float> other = own(1, first, count);
  for (size_t i = 0; i < count; ++i) {
    values[i] += other[i];
  }
  return values;
}

TEST(Checks, SeeWhatCollectivesTakeAndGive) {
  const std::vector<RawTrace> traces = traces_of("each_collective", "check");
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<Seen> all = {
        expected(format::kCheckedAllReduce, 0, own(rank)),
        expected(format::kCheckedAllReduce, 1, sum()),
        expected(format::kCheckedReduce, 0, own(rank)),
    };
    if (rank == 1) {
      all.push_back(expected(format::kCheckedReduce, 1, own(1)));
      all.push_back(expected(format::kCheckedBroadcast, 0, own(1)));
    }
    all.push_back(expected(format::kCheckedBroadcast, 1, own(1)));
    all.push_back(expected(format::kCheckedAllGather, 0, own(rank)));
    all.push_back(expected(format::kCheckedAllGather, 1, own(0), 0, 2));
    all.push_back(expected(format::kCheckedAllGather, 1, own(1), 1, 2));
    all.push_back(expected(format::kCheckedReduceScatter, 0, own(rank), 0, 2));
    all.push_back(expected(format::kCheckedReduceScatter, 0, own(rank, kCount), 1, 2));
    all.push_back(
        expected(format::kCheckedReduceScatter, 1, sum(static_cast<size_t>(rank) * kCount)));
    const RawTrace& trace = traces[static_cast<size_t>(rank)];
    EXPECT_EQ(seen_in(trace), all) << "of rank " << rank;
    EXPECT_EQ(trace.facts.at("payload-checks"), "check");
    uint64_t sequence = 0;
    for (const RawRecord& record : records_of(trace)) {
      EXPECT_GE(trace.value(record, "seq"), sequence);
      sequence = trace.value(record, "seq");
      EXPECT_NE(record.stack, 0u);
      EXPECT_EQ(trace.value(record, "type"), static_cast<uint64_t>(ncclFloat32));
    }
    EXPECT_EQ(sequence, 5u);
  }
}

TEST(Checks, AreThereWhereTheIdIsMadeFirst) {
  const RawTrace trace = traces_of("makes_the_id_first", "check", 1).front();
  EXPECT_EQ(trace.facts.at("payload-checks"), "check");
  EXPECT_EQ(records_of(trace).size(), 2u);
}

// The sequence and the field `part`, and the rows.
struct SeenSketch {
  uint64_t sequence, part;
  std::vector<uint64_t> rows;
  bool operator==(const SeenSketch& other) const {
    return sequence == other.sequence && part == other.part && rows == other.rows;
  }
};

std::ostream& operator<<(std::ostream& out, const SeenSketch& seen) {
  return out << seen.sequence << " " << std::hex << seen.part << " " << seen.rows.at(0) << std::dec;
}

std::vector<SeenSketch> sketches_in(const RawTrace& trace) {
  std::vector<RawRecord> records = trace.of("payloadSketch", format::kMoment);
  std::stable_sort(records.begin(), records.end(),
                   [](const RawRecord& a, const RawRecord& b) { return a.ticks < b.ticks; });
  std::vector<SeenSketch> all;
  for (const RawRecord& record : records) {
    SeenSketch& seen =
        all.emplace_back(SeenSketch{trace.value(record, "seq"), trace.value(record, "part"), {}});
    for (uint32_t row = 0; row < format::kPayloadRows; ++row) {
      seen.rows.push_back(trace.value(record, "row" + std::to_string(row)));
    }
  }
  return all;
}

SeenSketch expected_sketch(uint64_t sequence, uint64_t side, const std::vector<float>& values,
                           uint64_t part = 0, uint64_t parts = 1) {
  format::PayloadRow rows[format::kPayloadRows] = {};
  for (size_t i = 0; i < values.size(); ++i) {
    format::PayloadRow& row = rows[i % format::kPayloadRows];
    row.signed_sum += format::payload_sign(i) != 0 ? -values[i] : values[i];
    row.square_sum += double{values[i]} * values[i];
  }
  SeenSketch seen = {sequence, part | parts << 32 | side << 48, {}};
  for (const format::PayloadRow& row : rows) {
    seen.rows.push_back(format::packed(row));
  }
  return seen;
}

// Of sums alone; what is merely copied has equal hashes.
TEST(Checks, SketchSums) {
  const std::vector<RawTrace> traces = traces_of("each_collective", "check");
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(
        sketches_in(traces[static_cast<size_t>(rank)]),
        (std::vector<SeenSketch>{expected_sketch(1, 0, own(rank)), expected_sketch(1, 1, sum()),
                                 expected_sketch(5, 0, own(rank), 0, 2),
                                 expected_sketch(5, 0, own(rank, kCount), 1, 2),
                                 expected_sketch(5, 1, sum(static_cast<size_t>(rank) * kCount))}));
  }
  for (const RawTrace& trace : traces_of("small_and_large", "small")) {
    const std::vector<SeenSketch> seen = sketches_in(trace);
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[1], expected_sketch(1, 1, sum(0, 16)));
  }
}

TEST(Checks, SeeMessagesOfAGroup) {
  const std::vector<RawTrace> traces = traces_of("messages", "check");
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(seen_in(traces[static_cast<size_t>(rank)]),
              (std::vector<Seen>{expected(format::kCheckedSend, 0, own(rank)),
                                 expected(format::kCheckedReceive, 1, own(1 - rank))}));
  }
}

TEST(Checks, OfSmallOperationsAreCopies) {
  const std::vector<RawTrace> traces = traces_of("small_and_large", "small");
  for (int rank = 0; rank < 2; ++rank) {
    const RawTrace& trace = traces[static_cast<size_t>(rank)];
    EXPECT_EQ(seen_in(trace),
              (std::vector<Seen>{expected(format::kCheckedAllReduce, 0, own(rank, 0, 16)),
                                 expected(format::kCheckedAllReduce, 1, sum(0, 16))}));
    EXPECT_EQ(trace.facts.at("payload-checks"), "small");
    EXPECT_EQ(trace.stats, (std::map<std::string, uint64_t>()));
  }
}

TEST(Checks, AreNotMadeUnlessAskedFor) {
  for (const RawTrace& trace : traces_of("small_and_large", "batches")) {
    EXPECT_EQ(seen_in(trace), std::vector<Seen>());
    EXPECT_FALSE(trace.facts.contains("payload-checks"));
  }
}

TEST(Checks, CountWhatIsNotFinite) {
  const std::vector<RawTrace> traces = traces_of("not_finite", "check", 1);
  std::vector<float> values = own(0);
  values[0] = NAN;
  values[1] = 1;
  values[2] = -INFINITY;
  values[3] = INFINITY;
  const std::vector<Seen> seen = seen_in(traces[0]);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0], expected(format::kCheckedAllReduce, 0, values));
  EXPECT_EQ(seen[1].nans, 1u);
  EXPECT_EQ(seen[1].infinities, 2u);
}

// What is captured would be looked at with each launch of the graph.
TEST(Checks, OfCapturedOperationsAreCountedOnly) {
  const std::vector<RawTrace> traces = traces_of("replays", "check", 1);
  EXPECT_EQ(seen_in(traces[0]).size(), 4u);
  EXPECT_EQ(traces[0].stats, (std::map<std::string, uint64_t>{{"payload-unchecked", 1}}));
}

TEST(Checks, LeaveOutWhatAGpuCannotLoad) {
  const std::vector<RawTrace> traces = traces_of("crooked", "check", 1);
  const std::vector<Seen> seen = seen_in(traces[0]);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].side, 1u) << "what is gathered lies where it should";
  EXPECT_EQ(seen[1].hash, seen[2].hash);
  EXPECT_EQ(traces[0].stats, (std::map<std::string, uint64_t>{{"payload-unchecked", 1}}));
}

TEST(Checks, ThatFindNoRoomAreCounted) {
  const std::vector<RawTrace> traces = traces_of("many", "check", 1);
  const auto unchecked = traces[0].stats.find("payload-unchecked");
  const uint64_t missing = unchecked == traces[0].stats.end() ? 0 : unchecked->second;
  EXPECT_EQ(seen_in(traces[0]).size() + missing, 40000u);
}

TEST(Checks, OutliveTheirProcess) {
  const std::vector<RawTrace> traces = traces_of("waits_for_ever", "check");
  const std::vector<Seen> first = {expected(format::kCheckedAllReduce, 0, own(0)),
                                   expected(format::kCheckedAllReduce, 1, sum()),
                                   expected(format::kCheckedAllReduce, 0, own(0))};
  EXPECT_EQ(seen_in(traces[0]), first) << "what it gave before it waited, and no more";
  EXPECT_EQ(seen_in(traces[1]).size(), 2u);
}

}  // namespace
