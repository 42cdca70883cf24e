// test: timeout=300
// NVTX ranges, from NVIDIA's headers to the trace: the preload is the injection library too.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::Folder;
using preload::Outcome;
using preload::Program;
using preload::RawRecord;
using preload::RawTrace;
namespace format = traintrace::format;
using Lines = std::vector<std::string>;

Program recorded(const std::string& role, const Folder& folder, Lines arguments = {}) {
  Program program = preload::self(role, std::move(arguments));
  program.environment = {{"TRAINTRACE_DIR", folder.path()},
                         {"NVTX_INJECTION64_PATH", PRELOAD_BUILD "/lib/libtraintrace.so"}};
  return program;
}

Lines split(const std::string& text) {
  Lines lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end == text.npos ? text.size() : end + 1;
  }
  return lines;
}

std::vector<RawTrace> traces_in(const Folder& folder) {
  std::vector<RawTrace> traces;
  for (const std::string& path : folder.traces()) {
    traces.push_back(preload::read_raw(path));
    EXPECT_EQ(traces.back().problems, Lines());
  }
  return traces;
}

RawTrace trace_of(const std::string& role, Lines arguments = {}) {
  const Folder folder;
  const Outcome outcome = preload::run(recorded(role, folder, std::move(arguments)));
  EXPECT_TRUE(outcome.exited_with(0) || outcome.killed_by(SIGKILL)) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  std::vector<RawTrace> traces = traces_in(folder);
  EXPECT_EQ(traces.size(), 1u);
  return traces.empty() ? RawTrace() : std::move(traces.front());
}

std::string name_in(const RawTrace& trace, uint64_t id) {
  const auto name = trace.range_names.find(id);
  return id == 0 ? "?" : name == trace.range_names.end() ? "undefined" : name->second;
}

// "> step", "< step", "! mark", "start x", "end" of a thread; calls of CUDA by their names.
Lines story_of(const RawTrace& trace, uint32_t thread) {
  Lines story;
  for (const RawRecord& record : trace.records) {
    const std::string& call = trace.name_of(record);
    if (record.thread != thread || record.type == format::kLeave) {
      continue;
    }
    const std::string what = call == "nvtxRangePush"    ? "> "
                             : call == "nvtxRangePop"   ? "< "
                             : call == "nvtxMark"       ? "! "
                             : call == "nvtxRangeStart" ? "start "
                                                        : "";
    story.push_back(!what.empty()            ? what + name_in(trace, record.values.at(0))
                    : call == "nvtxRangeEnd" ? "end"
                                             : call);
  }
  return story;
}

// Of a thread, as a reader of the table finds it: outermost first.
Lines open_of(const RawTrace& trace, uint32_t thread) {
  Lines open;
  for (const format::OpenRanges& ranges : trace.open_ranges) {
    for (uint64_t i = 0; ranges.thread == thread && i < (ranges.state & 0xffff); ++i) {
      const format::OpenRange& range = ranges.ranges[i];
      if (range.began_ticks != 0) {
        open.push_back(range.range != 0 ? name_in(trace, range.range)
                                        : "=" + std::string(range.name, strnlen(range.name, 48)));
      }
    }
  }
  return open;
}

uint32_t main_thread(const RawTrace& trace) {
  for (const format::Thread& thread : trace.threads) {
    if (thread.tid == trace.header.pid) {
      return thread.serial;
    }
  }
  return 0;
}

Lines story_of_main(const RawTrace& trace) {
  return story_of(trace, main_thread(trace));
}

void call() {
  cudaMemset(nullptr, 0, 0);
}

nvtxEventAttributes_t attributes_of(const char* text) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text;
  return attributes;
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

ROLE(chained) {
  cudaFree(nullptr);
  nvtxDomainHandle_t domain = nvtxDomainCreateA("theirs");
  nvtxEventAttributes_t attributes = attributes_of("");
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  const int pushed = nvtxRangePushA("outer");
  const int in_domain = nvtxDomainRangePushEx(domain, &attributes);
  const int domain_popped = nvtxDomainRangePop(domain);
  const int popped = nvtxRangePop();
  const nvtxRangeId_t id = nvtxRangeStartA("started");
  nvtxRangeEnd(id);
  nvtxMarkA("a mark, which they do not listen to");
  return pushed == 41 && popped == 42 && in_domain == 43 && domain_popped == 44 && id == 77 ? 0 : 1;
}

const char* const kTheirs = PRELOAD_FIXTURES "/libnvtx_injection.so";
const Lines kTheirStory = {
    "push outer", "push registered in theirs", "pop in theirs", "pop", "start started", "end 77"};
const Lines kChainedStory = {"cudaFree",
                             "> outer",
                             "> theirs/registered",
                             "< theirs/registered",
                             "< outer",
                             "start started",
                             "end",
                             "! a mark, which they do not listen to"};

TEST(Nvtx, AnotherInjectionLibraryIsCalledToo) {
  const Folder folder;
  Program program = recorded("chained", folder);
  program.environment["TRAINTRACE_NVTX_NEXT"] = kTheirs;
  const Outcome outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.errors;
  EXPECT_EQ(split(outcome.output), kTheirStory);
  const std::vector<RawTrace> traces = traces_in(folder);
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_EQ(story_of_main(traces[0]), kChainedStory);
}

TEST(Nvtx, AnotherInjectionLibraryIsAllThatIsCalledWhereNothingIsRecorded) {
  const Folder folder;
  Program program = recorded("chained", folder);
  program.environment["TRAINTRACE_NVTX_NEXT"] = kTheirs;
  program.environment["TRAINTRACE_DISABLE"] = "1";
  const Outcome outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.errors;
  EXPECT_EQ(split(outcome.output), kTheirStory);
  EXPECT_TRUE(folder.traces().empty());
}

TEST(Nvtx, AnInjectionLibraryThatIsNoneIsToldAndRangesAreRecorded) {
  const Folder folder;
  Program program = recorded("nests", folder);
  program.environment["TRAINTRACE_NVTX_NEXT"] = "/nowhere/libtool.so";
  const Outcome outcome = preload::run(program);
  EXPECT_EQ(outcome.errors,
            "traintrace: TRAINTRACE_NVTX_NEXT=/nowhere/libtool.so: no NVTX injection library\n");
  const std::vector<RawTrace> traces = traces_in(folder);
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_EQ(story_of_main(traces[0]).size(), 11u);
}

// `traintrace run` sets both variables.
TEST(Nvtx, RunListensAndGoesOnToWhoWasToListen) {
  const Folder folder;
  Program program = preload::self("chained");
  program.command.insert(program.command.begin(), {TRAINTRACE_BINARY, "run", "--"});
  program.traced = false;
  program.environment = {{"TRAINTRACE_DIR", folder.path()}, {"NVTX_INJECTION64_PATH", kTheirs}};
  const Outcome outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.errors;
  EXPECT_EQ(split(outcome.output), kTheirStory);
  const std::vector<RawTrace> traces = traces_in(folder);
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_EQ(story_of_main(traces[0]), kChainedStory);
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
  const Outcome outcome = preload::run(recorded("forks", folder));
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.errors;
  std::vector<RawTrace> traces = traces_in(folder);
  ASSERT_EQ(traces.size(), 2u);
  if (traces[0].header.pid == traces[1].header.parent_pid) {
    std::swap(traces[0], traces[1]);
  }
  EXPECT_EQ(story_of_main(traces[0]), (Lines{"cudaMemset", "> child's", "< child's", "> child's"}));
  EXPECT_EQ(open_of(traces[0], main_thread(traces[0])), Lines{"child's"});
  EXPECT_EQ(traces[0].stats, (std::map<std::string, uint64_t>{{"unknown-range-end", 1}}));
  EXPECT_EQ(story_of_main(traces[1]), (Lines{"cudaFree", "> parent's", "< parent's"}));
}

ROLE(never_records) {
  nvtxRangePushA("a range");
  nvtxMarkA("a mark");
  return nvtxRangePop() == NVTX_NO_PUSH_POP_TRACKING ? 0 : 1;
}

TEST(Nvtx, RangesAloneMakeNoTrace) {
  const Folder folder;
  const Outcome outcome = preload::run(recorded("never_records", folder));
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.errors;
  EXPECT_TRUE(folder.traces().empty());
}

TEST(Nvtx, DumpNamesTheRanges) {
  const Folder folder;
  preload::run(recorded("too_deep", folder, {"die"}));
  ASSERT_EQ(folder.traces().size(), 1u);
  Program dump;
  dump.command = {TRAINTRACE_BINARY, "dump", folder.traces()[0]};
  dump.traced = false;
  const std::string text = preload::run(dump).output;
  EXPECT_NE(text.find("deeper-ranges=8"), text.npos) << text;
  EXPECT_NE(text.find("=level 39\""), text.npos) << text;
  EXPECT_NE(text.find("\nopen-range "), text.npos) << text;
}

}  // namespace
