// test: timeout=300 processors=6
// TRAINTRACE_MODE=full: a ring that is far too small, and no record is missing.  Where the machine
// is so busy that the thread that packs falls behind, exactly those are missing that are told as
// lost.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zstd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "format/segments.h"
#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"
#include "tests/simgpu/c10/profiler.h"

namespace c10 {
[[gnu::weak]] void reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, Device);
}

namespace {

using preload::Folder;
namespace format = traintrace::format;

constexpr uint64_t kBlocks = 8;
using Report = void(void*, int64_t, size_t, size_t, c10::Device);

// The size of the n-th block that is taken, so that what is missing or out of order shows.
int64_t bytes_of(uint64_t n) {
  return static_cast<int64_t>(512 * (1 + n % 1000));
}

// Once the tracer's thread has made the file.
bool unlink_segments() {
  for (int i = 0; i < 6000; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(getenv("TRAINTRACE_DIR"))) {
      if (entry.path().extension() == format::kSegmentsSuffix) {
        return std::filesystem::remove(entry.path());
      }
    }
    usleep(10'000);
  }
  return false;
}

// Takes and frees blocks, `pairs` of them in each of so many threads; then ends as it is told.
ROLE(blocks) {
  Report* const report = c10::reportMemoryUsageToProfiler;
  const uint64_t pairs = std::stoull(arguments.at(0));
  void* memory = nullptr;
  if (report == nullptr || cudaMalloc(&memory, 1 << 20) != cudaSuccess) {
    return 1;
  }
  if (arguments.at(2) == "unlink" && !unlink_segments()) {
    return 2;
  }
  const auto work = [&](uint64_t thread) {
    char* const base = static_cast<char*>(memory) + thread * 4096;
    for (uint64_t n = 0; n < pairs; ++n) {
      char* const block = base + n % kBlocks * 512;
      report(block, bytes_of(n), 1 << 19, 1 << 20, {c10::kCuda, 0});
      report(block, -bytes_of(n), 1 << 19, 1 << 20, {c10::kCuda, 0});
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < std::stoull(arguments.at(1)); ++i) {
    threads.emplace_back(work, i);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (arguments.at(2) == "kill") {
    kill(getpid(), SIGKILL);
  }
  return 0;
}

preload::Outcome run_blocks(const Folder& folder, uint64_t pairs, int threads,
                            const std::string& end, int ring_mb) {
  preload::Program program =
      preload::self("blocks", {std::to_string(pairs), std::to_string(threads), end});
  program.environment = {{"TRAINTRACE_DIR", folder.path()},
                         {"TRAINTRACE_MODE", "full"},
                         {"TRAINTRACE_STACKS", "native"},
                         {"TRAINTRACE_RING_MB", std::to_string(ring_mb)}};
  return preload::run(program);
}

std::string segments_of(const std::string& trace) {
  return trace.substr(0, trace.size() - std::strlen(format::kTraceSuffix)) +
         format::kSegmentsSuffix;
}

// What a thread did, in the order of its records; by number of its first record.
class Sequence {
 public:
  void add(const format::EventChunk& chunk, const std::string& words) {
    chunks_[chunk.thread][chunk.first_event] = words;
  }
  // Reports of a thread, and whether each is the one that must come next.  A gap is as many reports
  // as it is records: such a thread does nothing else.
  void check(uint64_t pairs, size_t threads, uint64_t told_as_lost) const {
    size_t with_reports = 0;
    uint64_t missing = 0;
    for (const auto& [thread, chunks] : chunks_) {
      uint64_t next = 0;
      uint64_t expected_first = 0;
      for (const auto& [first, words] : chunks) {
        ASSERT_GE(first, expected_first) << "thread " << thread;
        missing += first - expected_first;
        next += first - expected_first;
        uint64_t records = 0;
        for (size_t at = 0; at < words.size(); ++records) {
          format::RecordHead head = {};
          std::memcpy(&head, words.data() + at, sizeof head);
          if (head.type == format::kMoment) {
            int64_t change = 0;
            std::memcpy(&change, words.data() + at + 24, sizeof change);
            if (change != (next % 2 == 0 ? bytes_of(next / 2) : -bytes_of(next / 2))) {
              FAIL() << "thread " << thread << " report " << next << " is " << change;
            }
            ++next;
          }
          at += head.words * 8UL;
        }
        expected_first = first + records;
      }
      with_reports += next > 0 ? 1 : 0;
      EXPECT_TRUE(next == 0 || next == 2 * pairs) << "thread " << thread << ": " << next;
    }
    EXPECT_EQ(with_reports, threads);
    EXPECT_EQ(missing, told_as_lost);
  }

 private:
  std::map<uint32_t, std::map<uint64_t, std::string>> chunks_;
};

void add_segments(const std::string& path, Sequence& sequence) {
  const std::string bytes = preload::read_whole(path);
  for (size_t at = 0; bytes.size() - at > sizeof(format::SegmentHead);) {
    format::SegmentHead head = {};
    std::memcpy(&head, bytes.data() + at, sizeof head);
    at += sizeof head;
    ASSERT_EQ(std::memcmp(head.magic, format::kSegmentMagic, sizeof head.magic), 0);
    if (bytes.size() - at < head.packed_bytes) {
      return;  // half written when the process ended: the ring still has it
    }
    std::string raw(head.raw_bytes, '\0');
    ASSERT_EQ(ZSTD_decompress(raw.data(), raw.size(), bytes.data() + at, head.packed_bytes),
              raw.size());
    at += head.packed_bytes;
    for (size_t in = 0; in < raw.size();) {
      format::EventChunk chunk = {};
      std::memcpy(&chunk, raw.data() + in, sizeof chunk);
      sequence.add(chunk, raw.substr(in + sizeof chunk, chunk.committed));
      in += sizeof chunk + chunk.committed;
    }
  }
}

void add_ring(const std::string& path, Sequence& sequence) {
  const std::string bytes = preload::read_whole(path);
  format::FileHeader header = {};
  std::memcpy(&header, bytes.data(), sizeof header);
  for (const format::Section& section : header.sections) {
    for (uint64_t i = 0; section.kind == format::kEvents && i < section.bytes;
         i += section.element_bytes) {
      format::EventChunk chunk = {};
      std::memcpy(&chunk, bytes.data() + section.offset + i, sizeof chunk);
      if (chunk.ordinal != 0) {
        sequence.add(chunk, bytes.substr(section.offset + i + sizeof chunk, chunk.committed));
      }
    }
  }
}

uint64_t lost_of(const preload::RawTrace& trace) {
  const auto lost = trace.stats.find("ring-overwritten");
  return lost == trace.stats.end() ? 0 : lost->second;
}

// The ring holds most of it, as it shall not matter how much time the machine has for the thread
// that packs.
void check(uint64_t pairs, int threads, const std::string& end, int ring_mb) {
  const Folder folder;
  const preload::Outcome outcome = run_blocks(folder, pairs, threads, end, ring_mb);
  ASSERT_TRUE(end == "kill" ? outcome.killed_by(SIGKILL) : outcome.exited_with(0))
      << outcome.status << outcome.errors;
  const std::string trace = folder.traces().at(0);
  const preload::RawTrace tables = preload::read_raw(trace);
  EXPECT_EQ(tables.stats.count("no-chunk"), 0u);
  ASSERT_EQ(tables.tensor_devices.size(), 1u);
  EXPECT_TRUE(threads != 1 || tables.tensor_devices[0].allocations == pairs);
  Sequence sequence;
  add_segments(segments_of(trace), sequence);
  add_ring(trace, sequence);
  sequence.check(pairs, static_cast<size_t>(threads), lost_of(tables));
}

TEST(Full, TwoMillionBlocksTakenAndFreedAndNoneIsMissing) {
  check(2'000'000, 1, "exit", 128);
}

TEST(Full, NoneOfSeveralThreadsIsMissing) {
  check(200'000, 4, "exit", 64);
}

// Far faster than the writer: whatever it comes to write is not told as lost.
TEST(Full, OnlyWhatIsMissingIsToldAsLost) {
  check(300'000, 4, "exit", 1);
}

TEST(Full, AKillLosesNothing) {
  check(500'000, 1, "kill", 32);
}

TEST(Full, TheReaderJoinsThem) {
  const Folder folder;
  ASSERT_TRUE(run_blocks(folder, 400'000, 1, "exit", 32).exited_with(0));
  preload::Program report;
  report.command = {TRAINTRACE_BINARY, "report", folder.path(), "--by=call", "--format=csv"};
  report.traced = false;
  const preload::Outcome outcome = preload::run(report);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.errors;
  const std::string row = "reportMemoryUsageToProfiler,torch,tensor-block,";
  const size_t found = outcome.output.find(row);
  ASSERT_NE(found, std::string::npos) << outcome.output;
  // On a machine that is busy for long enough some are overwritten before they are packed.
  EXPECT_EQ(std::stoull(outcome.output.substr(found + row.size())) +
                lost_of(preload::read_raw(folder.traces().at(0))),
            800'000u)
      << outcome.output;
}

// The file is gone: the ring goes on as it does without, with the newest records and a count.
TEST(Full, WithoutItsFileTheRingGoesOn) {
  const Folder folder;
  const preload::Outcome outcome = run_blocks(folder, 300'000, 1, "unlink", 1);
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.errors;
  EXPECT_EQ(folder.files().size(), 1u);
  const preload::RawTrace trace = preload::read_raw(folder.traces().at(0));
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  EXPECT_GT(trace.stats.at("ring-overwritten"), 100'000u);
}

}  // namespace
