// test: timeout=300
// NVTX ranges, from NVIDIA's headers to the trace: the preload is the injection library too.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "support/nvtx_story.h"
#include "support/roles.h"

namespace {

using namespace preload;

void call() {
  cudaMemset(nullptr, 0, 0);
}

ROLE(nests) {
  cudaFree(nullptr);
  nvtxRangePushA("step 1284");
  nvtxRangePushW(L"backward \u00e9");
  const nvtxEventAttributes_t layer = attributes_of("layers.17");
  nvtxRangePushEx(&layer);
  call();
  nvtxMarkA("checkpoint");
  nvtxMarkW(L"wide");
  nvtxMarkEx(&layer);
  nvtxRangePop();
  nvtxRangePop();
  nvtxRangePop();
  return 0;
}

TEST(Nvtx, RangesAndMarksAreRecorded) {
  const RawTrace trace = trace_of("nests");
  EXPECT_EQ(story_of_main(trace),
            (Lines{"cudaFree", "> step 1284", "> backward \u00e9", "> layers.17", "cudaMemset",
                   "! checkpoint", "! wide", "! layers.17", "< layers.17", "< backward \u00e9",
                   "< step 1284"}));
  EXPECT_EQ(trace.range_names.size(), 5u) << "each name once";
  EXPECT_EQ(open_of(trace, main_thread(trace)), Lines());
  EXPECT_EQ(trace.stats, (std::map<std::string, uint64_t>()));
}

ROLE(threads) {
  cudaFree(nullptr);
  std::vector<std::thread> all;
  all.reserve(4);
  for (int i = 0; i < 4; ++i) {
    all.emplace_back([i] {
      for (int step = 0; step < 100; ++step) {
        nvtxRangePushA("step");
        nvtxRangePushA(("rank " + std::to_string(i)).c_str());
        nvtxRangePop();
        nvtxRangePop();
      }
      nvtxRangePushA(("left open " + std::to_string(i)).c_str());
    });
  }
  for (std::thread& thread : all) {
    thread.join();
  }
  return 0;
}

TEST(Nvtx, ThreadsHaveRangesOfTheirOwn) {
  const RawTrace trace = trace_of("threads");
  EXPECT_EQ(trace.range_names.size(), 9u) << "names are shared";
  Lines open;
  for (const format::Thread& thread : trace.threads) {
    const Lines story = story_of(trace, thread.serial);
    if (thread.serial == main_thread(trace) || story.empty()) {
      continue;
    }
    ASSERT_EQ(story.size(), 401u);
    EXPECT_EQ(story[0], "> step");
    EXPECT_EQ(story[1].substr(0, 7), "> rank ");
    EXPECT_EQ(story[2], "<" + story[1].substr(1));
    EXPECT_EQ(story[3], "< step");
    const Lines left = open_of(trace, thread.serial);
    ASSERT_EQ(left.size(), 1u);
    open.push_back(left[0]);
  }
  std::sort(open.begin(), open.end());
  EXPECT_EQ(open, (Lines{"left open 0", "left open 1", "left open 2", "left open 3"}));
}

ROLE(domains) {
  nvtxDomainHandle_t megatron = nvtxDomainCreateA("megatron");  // before recording begins
  nvtxStringHandle_t forward = nvtxDomainRegisterStringA(megatron, "forward");
  cudaFree(nullptr);
  nvtxDomainHandle_t wide = nvtxDomainCreateW(L"wide");
  nvtxEventAttributes_t attributes = attributes_of("");
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = forward;
  nvtxDomainRangePushEx(megatron, &attributes);
  nvtxRangePushA("forward");  // another name: the default domain's
  const nvtxEventAttributes_t inner = attributes_of("inner");
  nvtxDomainRangePushEx(wide, &inner);
  nvtxDomainRangePop(megatron);  // not the innermost one
  call();
  nvtxDomainRangePop(wide);
  nvtxRangePop();
  attributes.message.registered = nvtxDomainRegisterStringA(megatron, "forward");
  nvtxDomainMarkEx(megatron, &attributes);
  nvtxDomainRangePop(megatron);  // there is none
  nvtxDomainDestroy(megatron);
  attributes.message.registered = nullptr;
  nvtxMarkEx(&attributes);
  nvtxMarkEx(nullptr);
  nvtxMarkA(nullptr);
  return 0;
}

TEST(Nvtx, DomainsHaveStacksAndStringsOfTheirOwn) {
  const RawTrace trace = trace_of("domains");
  EXPECT_EQ(
      story_of_main(trace),
      (Lines{"cudaFree", "> megatron/forward", "> forward", "> wide/inner", "< megatron/forward",
             "cudaMemset", "< wide/inner", "< forward", "! megatron/forward", "! ", "! ", "! "}));
  EXPECT_EQ(open_of(trace, main_thread(trace)), Lines());
  EXPECT_EQ(trace.stats, (std::map<std::string, uint64_t>{{"unknown-range-end", 1}}));
}

ROLE(started) {
  cudaFree(nullptr);
  const nvtxRangeId_t first = nvtxRangeStartA("first");
  const nvtxRangeId_t second = nvtxRangeStartW(L"second");
  nvtxDomainHandle_t domain = nvtxDomainCreateA("io");
  const nvtxEventAttributes_t attributes = attributes_of("third");
  const nvtxRangeId_t third = nvtxDomainRangeStartEx(domain, &attributes);
  nvtxRangeEnd(second);
  std::thread([&] {
    nvtxRangeEnd(first);
    nvtxDomainRangeEnd(domain, third);
  }).join();
  return first != second && second != third && first != third && first != 0 ? 0 : 1;
}

TEST(Nvtx, RangesThatAreStartedEndByTheirHandle) {
  const RawTrace trace = trace_of("started");
  const std::vector<RawRecord> started = trace.of("nvtxRangeStart", format::kMoment);
  const std::vector<RawRecord> ended = trace.of("nvtxRangeEnd", format::kMoment);
  ASSERT_EQ(started.size(), 3u);
  ASSERT_EQ(ended.size(), 3u);
  Lines names;
  for (const RawRecord& end : ended) {
    for (const RawRecord& start : started) {
      if (start.values.at(1) == end.values.at(0)) {
        names.push_back(name_in(trace, start.values.at(0)));
      }
    }
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (Lines{"first", "io/third", "second"}));
}

ROLE(too_deep) {
  cudaFree(nullptr);
  for (int i = 0; i < 40; ++i) {
    nvtxRangePushA(("level " + std::to_string(i)).c_str());
  }
  if (arguments.at(0) == "die") {
    raise(SIGKILL);
  }
  for (int i = 0; i < 42; ++i) {
    nvtxRangePop();
  }
  nvtxRangePushA("after");
  return 0;
}

TEST(Nvtx, WhatIsTooDeepIsCounted) {
  const RawTrace dead = trace_of("too_deep", {"die"});
  const Lines open = open_of(dead, main_thread(dead));
  ASSERT_EQ(open.size(), format::kMostOpenRanges);
  EXPECT_EQ(open.front(), "level 0");
  EXPECT_EQ(open.back(), "level 31");
  EXPECT_EQ(dead.open_ranges.at(0).deeper, 8u);
  const RawTrace trace = trace_of("too_deep", {"live"});
  EXPECT_EQ(trace.stats,
            (std::map<std::string, uint64_t>{{"ranges-deep", 8}, {"unknown-range-end", 2}}));
  EXPECT_EQ(open_of(trace, main_thread(trace)), Lines{"after"});
  EXPECT_EQ(trace.of("nvtxRangePop", format::kMoment).size(), 40u);
}

// Each of these threads is in its outer range, and maybe in the inner one, whenever that is.
ROLE(killed) {
  cudaFree(nullptr);
  std::vector<std::thread> all;
  all.reserve(3);
  std::atomic<int> ready = 0;
  for (int i = 0; i < 3; ++i) {
    all.emplace_back([i, &ready] {
      nvtxRangePushA(("outer " + std::to_string(i)).c_str());
      for (bool first = true;; first = false) {
        nvtxRangePushA("inner");
        nvtxRangePop();
        ready += first ? 1 : 0;
      }
    });
  }
  while (ready < 3) {
    usleep(100);
  }
  usleep(static_cast<useconds_t>(std::stoi(arguments.at(0))));
  raise(SIGKILL);
  return 1;
}

TEST(Nvtx, OpenRangesSurviveAKill) {
  for (int round = 0; round < 10; ++round) {
    const RawTrace trace = trace_of("killed", {std::to_string(round * 777)});
    Lines outer;
    for (const format::OpenRanges& ranges : trace.open_ranges) {
      const Lines open = open_of(trace, ranges.thread);
      ASSERT_TRUE(open.size() == 1 || open.size() == 2);
      outer.push_back(open[0]);
      EXPECT_EQ(open.back(), open.size() == 1 ? open[0] : "inner");
    }
    std::sort(outer.begin(), outer.end());
    EXPECT_EQ(outer, (Lines{"outer 0", "outer 1", "outer 2"}));
  }
}

ROLE(many_names) {
  cudaFree(nullptr);
  for (int i = 0; i < 40'000; ++i) {
    nvtxRangePushA(("step " + std::to_string(i)).c_str());
    nvtxRangePop();
  }
  nvtxRangePushA("step 1");
  nvtxRangePushA("step 50000, whose name is longer than what is kept of it");
  return 0;
}

TEST(Nvtx, OpenRangesHaveNamesAlsoWhereThereAreTooMany) {
  const RawTrace trace = trace_of("many_names");
  EXPECT_GT(trace.range_names.size(), 30'000u);
  EXPECT_LE(trace.range_names.size(), 32'768u);
  EXPECT_EQ(trace.stats.at("range-names-full"), 40'001 - trace.range_names.size());
  EXPECT_EQ(open_of(trace, main_thread(trace)),
            (Lines{"step 1", "=step 50000, whose name is longer than what is ke"}));
}

ROLE(forks) {
  cudaFree(nullptr);
  nvtxRangePushA("parent's");
  const pid_t child = fork();
  if (child == 0) {
    nvtxRangePushA("before the child records");
    call();
    nvtxRangePushA("child's");
    nvtxRangePop();
    nvtxRangePop();
    nvtxRangePop();  // of a range that this trace has not seen
    nvtxRangePushA("child's");
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  nvtxRangePop();
  return status;
}

TEST(Nvtx, AForkedChildHasRangesOfItsOwn) {
  const Folder folder;
  const Outcome outcome = run(recorded("forks", folder));
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.errors;
  std::vector<RawTrace> traces = traces_in(folder);
  ASSERT_EQ(traces.size(), 2u);
  if (traces[0].header.pid == traces[1].header.parent_pid) {
    std::swap(traces[0], traces[1]);
  }
  EXPECT_EQ(story_of_main(traces[0]),
            (Lines{"> before the child records", "cudaMemset", "> child's", "< child's",
                   "< before the child records", "> child's"}));
  EXPECT_EQ(open_of(traces[0], main_thread(traces[0])), Lines{"child's"});
  EXPECT_EQ(traces[0].stats, (std::map<std::string, uint64_t>{{"unknown-range-end", 1}}));
  EXPECT_EQ(story_of_main(traces[1]), (Lines{"cudaFree", "> parent's", "< parent's"}));
}

// What is open when recording begins, of every thread.
ROLE(early) {
  nvtxRangePushA("gone");
  nvtxRangePop();
  nvtxRangePop();  // there is none
  nvtxDomainHandle_t domain = nvtxDomainCreateA("megatron");
  nvtxRangePushA("training");
  const nvtxEventAttributes_t setup = attributes_of("setup");
  nvtxDomainRangePushEx(domain, &setup);
  nvtxRangePushA((std::string(300, 'x')).c_str());
  nvtxDomainRangePop(domain);
  std::atomic<bool> pushed = false;
  std::atomic<bool> recording = false;
  std::thread other([&] {
    nvtxRangePushA("loader");
    pushed = true;
    while (!recording) {
      usleep(100);
    }
    nvtxRangePushA("batch");
    pause();
  });
  while (!pushed) {
    usleep(100);
  }
  cudaFree(nullptr);
  recording = true;
  call();
  nvtxRangePop();
  usleep(100'000);
  raise(SIGKILL);
  return 1;
}

TEST(Nvtx, WhatIsOpenWhenRecordingBeginsIsRecorded) {
  const RawTrace trace = trace_of("early");
  const std::string cut(240, 'x');
  EXPECT_EQ(story_of_main(trace),
            (Lines{"> training", "> " + cut, "cudaFree", "cudaMemset", "< " + cut}));
  EXPECT_EQ(open_of(trace, main_thread(trace)), Lines{"training"});
  Lines stories;
  for (const format::Thread& thread : trace.threads) {
    if (thread.serial != main_thread(trace)) {
      const Lines story = story_of(trace, thread.serial);
      const Lines open = open_of(trace, thread.serial);
      stories.insert(stories.end(), story.begin(), story.end());
      stories.insert(stories.end(), open.begin(), open.end());
    }
  }
  EXPECT_EQ(stories, (Lines{"> loader", "> batch", "loader", "batch"}));
  EXPECT_EQ(trace.stats, (std::map<std::string, uint64_t>()));
}

ROLE(early_and_deep) {
  for (int i = 0; i < 40; ++i) {
    nvtxRangePushA(std::to_string(i).c_str());
  }
  for (int i = 0; i < 10; ++i) {
    nvtxRangePop();
  }
  cudaFree(nullptr);
  return 0;
}

TEST(Nvtx, TooManyThatAreEarlyAreCountedDown) {
  const RawTrace trace = trace_of("early_and_deep");
  const Lines open = open_of(trace, main_thread(trace));
  ASSERT_EQ(open.size(), 30u);
  EXPECT_EQ(open.back(), "29");
}

ROLE(with_extras) {
  nvtxNameCategoryA(7, "loader");
  cudaFree(nullptr);
  nvtxDomainHandle_t domain = nvtxDomainCreateA("io");
  nvtxDomainNameCategoryW(domain, 7, L"disk");
  nvtxEventAttributes_t attributes = attributes_of("batch");
  attributes.category = 7;
  nvtxRangePushEx(&attributes);
  nvtxDomainMarkEx(domain, &attributes);
  attributes.category = 9;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT32;
  attributes.payload.ullValue = ~0ULL;
  nvtxMarkEx(&attributes);
  attributes.category = 0;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
  attributes.payload.dValue = 2.5;
  nvtxRangeEnd(nvtxRangeStartEx(&attributes));
  attributes.payloadType = 1234;
  nvtxMarkEx(&attributes);
  nvtxRangePop();
  return 0;
}

// "loader 5 2a": category, type and bits of the payload.
Lines extras_of(const RawTrace& trace, const std::string& call) {
  Lines lines;
  for (const RawRecord& record : trace.of(call, format::kMoment)) {
    const size_t count = record.values.size();
    char number[32];
    snprintf(number, sizeof number, " %d %llx", static_cast<int>(record.values.at(count - 2)),
             static_cast<unsigned long long>(record.values.at(count - 1)));
    const uint64_t category = record.values.at(count - 3);
    lines.push_back((category == 0 ? "" : name_in(trace, category)) + number);
  }
  return lines;
}

TEST(Nvtx, CategoriesAndPayloadsAreRecorded) {
  const RawTrace trace = trace_of("with_extras");
  EXPECT_EQ(story_of_main(trace), (Lines{"cudaFree", "> batch", "! io/batch", "! batch",
                                         "start batch", "end", "! batch", "< batch"}));
  EXPECT_EQ(extras_of(trace, "nvtxRangePushEx"), Lines{"loader 0 0"});
  EXPECT_EQ(extras_of(trace, "nvtxMarkEx"), (Lines{"disk 0 0", "9 5 ffffffff"}));
  EXPECT_EQ(extras_of(trace, "nvtxRangeStartEx"), Lines{" 3 4004000000000000"});
  EXPECT_EQ(trace.of("nvtxMark", format::kMoment).size(), 1u) << "no type of NVTX's";
}

// From now on every system call of this thread but the end of the process kills it.
bool forbid_system_calls() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const sock_fprog filter = {sizeof program / sizeof *program, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

ROLE(makes_no_system_call) {
  if (arguments.at(0) == "recorded") {
    cudaFree(nullptr);
  }
  const auto push_and_pop = [] {
    for (const char* const name : {"step 7", "aten::mm, seq = 7, op_id = 12, sizes = [[2, 3]]"}) {
      nvtxRangePushA(name);
      nvtxRangePop();
    }
  };
  push_and_pop();  // it asks for the library, and names are new
  if (!forbid_system_calls()) {
    return 77;
  }
  for (int i = 0; i < 100; ++i) {
    push_and_pop();
  }
  if (arguments.at(0) == "asks") {
    getppid();
  }
  syscall(SYS_exit_group, 0);
  return 1;
}

TEST(Nvtx, ARangeMakesNoSystemCall) {
  const auto outcome_of = [](const std::string& how) {
    const Folder folder;
    return run(recorded("makes_no_system_call", folder, {how}));
  };
  if (outcome_of("early").exited_with(77)) {
    GTEST_SKIP() << "no filter for system calls here";
  }
  EXPECT_TRUE(outcome_of("early").exited_with(0)) << "before recording begins";
  EXPECT_TRUE(outcome_of("recorded").exited_with(0));
  EXPECT_TRUE(outcome_of("asks").killed_by(SIGSYS)) << "the filter works";
}

ROLE(never_records) {
  nvtxRangePushA("a range");
  nvtxMarkA("a mark");
  return nvtxRangePop() == NVTX_NO_PUSH_POP_TRACKING ? 0 : 1;
}

TEST(Nvtx, RangesAloneMakeNoTrace) {
  const Folder folder;
  const Outcome outcome = run(recorded("never_records", folder));
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.errors;
  EXPECT_TRUE(folder.traces().empty());
}

TEST(Nvtx, DumpNamesTheRanges) {
  const Folder folder;
  run(recorded("too_deep", folder, {"die"}));
  ASSERT_EQ(folder.traces().size(), 1u);
  Program dump;
  dump.command = {TRAINTRACE_BINARY, "dump", folder.traces()[0]};
  dump.traced = false;
  const std::string text = run(dump).output;
  EXPECT_NE(text.find("deeper-ranges=8"), text.npos) << text;
  EXPECT_NE(text.find("=level 39\""), text.npos) << text;
  EXPECT_NE(text.find("\nopen-range "), text.npos) << text;
}

}  // namespace
