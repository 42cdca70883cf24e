// The markers of include/traintrace.h, from a program that is linked to nothing of ours.
#include "include/traintrace.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "support/nvtx_story.h"
#include "support/roles.h"

namespace {

using namespace preload;

// "step 5", "> forward", "< forward", "! checkpoint", "samples 0-31" of the thread.
Lines marked_by(const RawTrace& trace, uint32_t thread) {
  Lines lines;
  for (const RawRecord& record : trace.records) {
    if (record.thread != thread || record.type != format::kMoment) {
      continue;
    }
    const std::string& name = trace.name_of(record);
    if (name == "step") {
      lines.push_back("step " + std::to_string(static_cast<int64_t>(record.values.at(0))));
    } else if (name == "note") {
      std::string text(reinterpret_cast<const char*>(record.values.data() + 3), 64);
      text.resize(std::min<uint64_t>(64, record.values.at(2) - record.values.at(1)));
      lines.push_back(record.values.at(1) == 0 ? name_in(trace, record.values.at(0)) + " " + text
                                               : ".." + text);
    } else if (name == "rangePush" || name == "rangePop" || name == "mark") {
      lines.push_back((name == "mark"        ? "! "
                       : name == "rangePush" ? "> "
                                             : "< ") +
                      name_in(trace, record.values.at(0)));
    }
  }
  return lines;
}

ROLE(marks) {
  cudaFree(nullptr);
  tt_step(5);
  tt_note("samples", "0-31");
  tt_range_push("forward");
  tt_mark("checkpoint");
  tt_range_pop();
  tt_step(-1);
  return 0;
}

TEST(Markers, AreRecorded) {
  const RawTrace trace = trace_of("marks");
  EXPECT_EQ(marked_by(trace, main_thread(trace)),
            (Lines{"step 5", "samples 0-31", "> forward", "! checkpoint", "< forward", "step 6"}));
  EXPECT_EQ(open_of(trace, main_thread(trace)), (Lines{"=step 6", "=samples 0-31"}));
  EXPECT_EQ(trace.stats, (std::map<std::string, uint64_t>()));
}

// Neither steps nor notes pile up, wherever they are called.
ROLE(goes_on) {
  cudaFree(nullptr);
  nvtxRangePushA("training");
  for (int step = 0; step < 1000; ++step) {
    tt_range_push("step's own");
    tt_step(step);
    tt_note("samples", std::to_string(step * 32).c_str());
    tt_note("file", "a");
    nvtxRangePushA("forward");
    nvtxRangePop();
    tt_range_pop();
  }
  tt_range_push("eval");
  raise(SIGKILL);
  return 1;
}

TEST(Markers, OfAKilledProcessAreTheNewest) {
  const RawTrace trace = trace_of("goes_on");
  EXPECT_EQ(open_of(trace, main_thread(trace)),
            (Lines{"training", "=step 999", "=samples 31968", "=file a", "eval"}));
  EXPECT_EQ(trace.stats, (std::map<std::string, uint64_t>()));
}

const std::string kLong = [] {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += std::to_string(i) + ",";
  }
  return text;
}();

ROLE(long_notes) {
  cudaFree(nullptr);
  tt_note("samples", kLong.c_str());
  tt_note("nothing", "");
  tt_note("null", nullptr);
  return 0;
}

TEST(Markers, ALongNoteIsSeveralRecords) {
  const RawTrace trace = trace_of("long_notes");
  Lines expected = {"samples " + kLong.substr(0, 64)};
  for (size_t at = 64; at < 512; at += 64) {
    expected.push_back(".." + kLong.substr(at, 64));
  }
  expected.insert(expected.end(), {"nothing ", "null "});
  EXPECT_EQ(marked_by(trace, main_thread(trace)), expected);
  EXPECT_EQ(open_of(trace, main_thread(trace)),
            (Lines{"=" + ("samples " + kLong).substr(0, 48), "=nothing ", "=null "}));
}

ROLE(unbalanced) {
  cudaFree(nullptr);
  tt_range_pop();
  nvtxRangePushA("NVTX's own");
  tt_range_pop();
  tt_range_push(nullptr);
  std::atomic<bool> marked = false;
  std::thread([&] {
    tt_step(1);
    tt_range_pop();
    marked = true;
    pause();
  }).detach();
  while (!marked) {
    usleep(1000);
  }
  raise(SIGKILL);
  return 1;
}

TEST(Markers, EndNothingButTheirOwn) {
  const RawTrace trace = trace_of("unbalanced");
  EXPECT_EQ(open_of(trace, main_thread(trace)), (Lines{"NVTX's own", ""}));
  EXPECT_EQ(trace.stats, (std::map<std::string, uint64_t>{{"unknown-range-end", 3}}));
}

// Parts of the work that take turns on one thread end in any order.
ROLE(by_name) {
  cudaFree(nullptr);
  tt_range_push("first");
  tt_range_push("second");
  nvtxRangePushA("first");
  tt_range_push("second");
  tt_range_end("first");
  tt_range_end("second");
  tt_range_end("never begun");
  raise(SIGKILL);
  return 1;
}

TEST(Markers, EndByName) {
  const RawTrace trace = trace_of("by_name");
  EXPECT_EQ(marked_by(trace, main_thread(trace)),
            (Lines{"> first", "> second", "> second", "< first", "< second"}));
  EXPECT_EQ(open_of(trace, main_thread(trace)), (Lines{"second", "first"}));  // NVTX's own
  EXPECT_EQ(trace.stats, (std::map<std::string, uint64_t>{{"unknown-range-end", 1}}));
}

ROLE(early) {
  tt_step(3);
  tt_step(4);
  tt_note("samples", "0-31");
  tt_note("samples", "32-63");
  tt_range_push("setup");
  tt_range_push("gone");
  tt_range_pop();
  cudaFree(nullptr);
  tt_step(-1);
  return 0;
}

TEST(Markers, ThatAreOpenWhenRecordingBeginsAreRecorded) {
  const RawTrace trace = trace_of("early");
  EXPECT_EQ(marked_by(trace, main_thread(trace)),
            (Lines{"step 4", "samples 32-63", "> setup", "step 5"}));
  EXPECT_EQ(open_of(trace, main_thread(trace)), (Lines{"=step 5", "=samples 32-63", "setup"}));
}

ROLE(without) {
  tt_step(1);
  tt_range_push("a");
  tt_range_pop();
  tt_mark("b");
  tt_note("c", "d");
  return 0;
}

TEST(Markers, DoNothingWhereNothingIsPreloaded) {
  Program program = self("without");
  program.environment = {{"LD_PRELOAD", ""}};
  EXPECT_TRUE(run(program).exited_with(0));
}

// As a launcher would that marks and never uses a GPU.
TEST(Markers, DoNotBeginARecording) {
  const Folder folder;
  EXPECT_TRUE(run(recorded("without", folder)).exited_with(0));
  EXPECT_TRUE(folder.traces().empty());
}

}  // namespace
