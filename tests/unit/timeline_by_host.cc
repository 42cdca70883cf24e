// uses: analyzer
// What is said of time without a timeline of the GPU: who waits for the GPU, by recorded calls.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "analyzer/detectors/lost_time/latency.h"
#include "analyzer/symbols/symbolizer.h"
#include "analyzer/text/dump_parser.h"
#include "analyzer/timeline/profile.h"
#include "analyzer/timeline/recorded/recorded.h"

namespace traintrace {
namespace {

constexpr const char* kPageable = "0x7ffc00000010";
constexpr const char* kPinned = "0x7fbb00000000";

// A thread's calls one after the other, times in us.
class Calls {
 public:
  explicit Calls(const std::string& lines_of_process = "") {
    text_ = "start 1700000000.000000000\nprocess 0 rank=0 world=1 armed=+0 alive=+99\n" +
            lines_of_process + "thread 1 tid=1000 events=1\n";
    call("cudaHostAlloc", 10, fmt::format("address={} bytes=4096", kPinned));
    call("cudaMalloc", 10, "address=0x500000 bytes=4096");
  }
  void call(const std::string& name, int64_t us, const std::string& values) {
    ++now_us_;  // what begins when another call returns is within it
    const size_t out =
        name.find("Alloc") != name.npos || name.find("Malloc") != name.npos ? values.find(' ') : 0;
    text_ += fmt::format("+{0:.6f} 0/1 > {1} {2} @{3}=train.py:{3}:step on-device=0\n",
                         static_cast<double>(now_us_) / 1e6, name,
                         out == 0 ? values : values.substr(out + 1), line_of(name));
    now_us_ += us;
    text_ += fmt::format("+{:.6f} 0/1 < {} =cudaSuccess {}\n", static_cast<double>(now_us_) / 1e6,
                         name, out == 0 ? "" : values.substr(0, out));
  }
  void launch() { call("cudaLaunchKernel", 5, "function=0x10 stream=0x9"); }
  void wait(int64_t us) { call("cudaStreamSynchronize", us, "stream=0x9"); }
  void copy_to(const char* memory, int64_t us) {
    call("cudaMemcpyAsync", us,
         fmt::format("to={} from=0x500000 bytes=4 direction=d2h stream=0x9", memory));
  }
  void host(int64_t us) { now_us_ += us; }

  std::vector<Finding> findings() const {
    Result<DumpText> dump = parse_dump(text_, "test");
    EXPECT_TRUE(dump) << dump.error().message;
    std::vector<Timeline> timelines;
    Symbolizer symbolizer;
    timelines.push_back(recorded_timeline(dump->processes.front(), {0},
                                          {.world = 1, .communicators = {}}, symbolizer, true));
    return find_by_host(build_profile(std::move(timelines)));
  }

 private:
  static int line_of(const std::string& name) {
    return name == "cudaStreamSynchronize" ? 7 : name == "cudaFree" ? 8 : 9;
  }

  std::string text_;
  int64_t now_us_ = 1000;
};

// "latency.sync-in-loop cudaStreamSynchronize 240 ms"; empty: nothing is wrong.
std::string said(const Calls& calls) {
  std::string text;
  for (const Finding& finding : calls.findings()) {
    // How long the GPU works is not known, so that the host's part is no more than an info.
    if (finding.severity != Severity::kInfo || finding.code == "latency.host-bound") {
      int64_t idle_ns = 0;
      for (const auto& [key, value] : finding.values) {
        idle_ns = key == "idle_ns" ? value : idle_ns;
      }
      text +=
          fmt::format("{} line {} {} ms", finding.code,
                      finding.where.empty() ? 0 : finding.where.front().line, idle_ns / 1'000'000);
    }
  }
  return text;
}

constexpr int kSteps = 61;

// item() of PyTorch: the copy has waited for the GPU, the call after it found nothing to wait for.
TEST(ByHost, ACopyHasWaitedBeforeTheCallThatWaits) {
  for (const char* const ring : {"", "loss ring-overwritten 7\n"}) {
    Calls calls(ring);
    for (int i = 0; i < kSteps; ++i) {
      calls.launch();
      calls.copy_to(kPageable, 4800);
      calls.wait(4);
      calls.host(4000);
    }
    EXPECT_EQ(said(calls), "latency.sync-in-loop line 7 240 ms") << ring;
  }
}

TEST(ByHost, OneWaitBeforeTheOther) {
  Calls calls;
  for (int i = 0; i < kSteps; ++i) {
    calls.call("cudaLaunchKernel", 5, "function=0x10 stream=0xa");
    calls.launch();
    calls.wait(4800);
    calls.call("cudaStreamSynchronize", 4, "stream=0xa");
    calls.host(4000);
  }
  EXPECT_EQ(said(calls), "latency.sync-in-loop line 7 240 ms");
}

// What it waited for before it gave the GPU more is another matter: then the call is not the
// reason, but the GPU has nothing to do all the same.
TEST(ByHost, AWaitBeforeTheLaunchDoesNotCount) {
  Calls calls;
  for (int i = 0; i < kSteps; ++i) {
    calls.call("cudaLaunchKernel", 5, "function=0x10 stream=0xa");
    calls.launch();
    calls.wait(4800);
    calls.launch();
    calls.call("cudaDeviceSynchronize", 4, "");
    calls.host(4000);
  }
  EXPECT_EQ(said(calls), "latency.host-bound line 9 239 ms");
}

// Time that blocking accounts for is not told twice; and what is less than a tenth, or comes a few
// times, is nothing to warn of.
TEST(ByHost, WhatTheHostDoesBeyondThat) {
  const auto loads = [](int steps, int64_t blocked_us, int64_t host_us) {
    Calls calls;
    for (int i = 0; i < steps; ++i) {
      calls.launch();
      calls.wait(blocked_us);
      calls.host(host_us);
    }
    return said(calls);
  };
  EXPECT_EQ(loads(kSteps, 4800, 14'000),
            "latency.sync-in-loop line 7 288 ms"
            "latency.host-bound line 7 552 ms");
  EXPECT_EQ(loads(kSteps, 300, 6000), "latency.host-bound line 7 342 ms");
  EXPECT_EQ(loads(kSteps, 4800, 500), "");
  EXPECT_EQ(loads(15, 300, 14'000), "");
}

// Now and then is no habit, and a program that does so a few times no loop.
TEST(ByHost, LongPausesThatComeAgain) {
  const auto pauses = [](int steps, int64_t pause_us) {
    Calls calls;
    for (int i = 0; i < steps; ++i) {
      calls.launch();
      calls.wait(4800);
      calls.host(i % 10 == 9 ? pause_us : 20);
    }
    return said(calls);
  };
  EXPECT_EQ(pauses(kSteps, 60'000), "latency.pause line 7 360 ms");
  EXPECT_EQ(pauses(kSteps, 1000), "");
  EXPECT_EQ(pauses(19, 60'000), "");
  // Four at even distances may be chance, unless nobody is preempted for so long.
  EXPECT_EQ(pauses(41, 60'000), "");
  EXPECT_EQ(pauses(41, 250'000), "latency.pause line 7 1000 ms");
}

TEST(ByHost, NobodyIsLateBehindACopy) {
  Calls at_once, seldom;
  for (int i = 0; i < kSteps; ++i) {
    at_once.launch();
    at_once.copy_to(kPageable, 4800);
    at_once.wait(4);
    at_once.host(20);
    seldom.launch();
    seldom.host(4000);
    if (i % 50 == 0) {
      seldom.copy_to(kPageable, 4800);
      seldom.wait(4);
      seldom.host(4000);
    }
  }
  EXPECT_EQ(said(at_once), "");
  EXPECT_EQ(said(seldom), "");
}

// A copy to pageable memory waits by itself.  One to pinned memory need not, and where the oldest
// calls are lost it is not known which it is.
TEST(ByHost, ACopyAlone) {
  const auto copies = [](const char* memory, const std::string& lines) {
    Calls calls(lines);
    for (int i = 0; i < kSteps; ++i) {
      calls.launch();
      calls.copy_to(memory, 4800);
      calls.host(4000);
    }
    return said(calls);
  };
  EXPECT_EQ(copies(kPageable, ""), "latency.pageable-copy line 9 240 ms");
  EXPECT_EQ(copies(kPinned, ""), "");
  EXPECT_EQ(copies(kPageable, "loss ring-overwritten 7\n"), "");
}

// What `copies` does stands before the launch of each step; before it the GPU has nothing to do.
std::string said_of_copies(const std::function<void(Calls&)>& copies) {
  Calls calls;
  for (int i = 0; i < kSteps; ++i) {
    copies(calls);
    calls.launch();
    calls.copy_to(kPageable, 4800);
    calls.wait(4);
  }
  const std::string text = said(calls);
  int64_t copied_ns = 0;
  for (const Finding& finding : calls.findings()) {
    for (const auto& [key, value] : finding.values) {
      copied_ns += key == "exposed_ns" ? value : 0;
    }
  }
  return text + (copied_ns == 0 ? "" : fmt::format(", copied {} ms", copied_ns / 1'000'000));
}

TEST(ByHost, AnIdleGpuComputesNothingWhileTheHostCopies) {
  const auto copy = [](const char* from, int64_t bytes, const char* stream = "0x9") {
    return [=](Calls& calls) {
      calls.call(
          "cudaMemcpyAsync", 4000,
          fmt::format("to=0x500000 from={} bytes={} direction=h2d stream={}", from, bytes, stream));
    };
  };
  EXPECT_EQ(said_of_copies(copy(kPageable, 1 << 20)),
            "latency.pageable-copy line 9 0 ms, copied 240 ms");
  // From pinned memory the call may return at any time; of a few bytes it does so at once.
  EXPECT_EQ(said_of_copies(copy(kPinned, 1 << 20)), "");
  EXPECT_EQ(said_of_copies(copy(kPageable, 4096)), "");
  // The GPU may be busy: behind a kernel, which may take as long.
  EXPECT_EQ(said_of_copies([&](Calls& calls) {
              calls.launch();
              copy(kPageable, 1 << 20)(calls);
            }),
            "");
  EXPECT_EQ(said_of_copies([&](Calls& calls) {
              calls.call("cudaLaunchKernel", 5, "function=0x10 stream=0xa");
              copy(kPageable, 1 << 20)(calls);
              calls.call("cudaStreamSynchronize", 4, "stream=0xa");
            }),
            "");
}

TEST(ByHost, MemoryIsGivenBackWhenTheGpuIsDone) {
  const auto frees = [](const char* allocate, int64_t takes_us, int64_t host_us) {
    Calls calls;
    for (int i = 0; i < kSteps; ++i) {
      calls.call(allocate, 10, "address=0x600000 bytes=64");
      calls.launch();
      calls.call("cudaFree", takes_us, "address=0x600000");
      calls.host(host_us);
    }
    return said(calls);
  };
  EXPECT_EQ(frees("cudaMalloc", 4800, 3000), "latency.implicit-sync line 8 180 ms");
  EXPECT_EQ(frees("cudaMalloc", 4800, 20), "");
  // It found the GPU with nothing to do.
  EXPECT_EQ(frees("cudaMalloc", 10, 3000), "latency.host-bound line 9 179 ms");
  EXPECT_EQ(frees("cudaMallocAsync", 4800, 3000), "");
}

}  // namespace
}  // namespace traintrace
