// uses: interpose/life/settings.cc interpose/base/files.cc
// What the environment asks for, and what is done where it asks for nonsense.
#include "interpose/life/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

using traintrace::matches_any;
using traintrace::read_settings;
using traintrace::Settings;
using traintrace::Stacks;
using traintrace::format::Setting;

Settings with(const char* name, const char* value) {
  setenv(name, value, 1);
  const Settings settings = read_settings();
  unsetenv(name);
  return settings;
}

const char* error(const Settings& settings, Setting setting) {
  return settings.errors[static_cast<int>(setting)];
}

TEST(Settings, HaveDefaults) {
  const Settings settings = read_settings();
  EXPECT_STREQ(settings.dir, "traintrace");
  EXPECT_EQ(settings.ring_mb, 64u);
  EXPECT_EQ(settings.stacks, Stacks::kAll);
  EXPECT_FALSE(settings.disabled);
  EXPECT_FALSE(settings.log);
  for (const char* none : settings.errors) {
    EXPECT_EQ(none, nullptr);
  }
}

TEST(Settings, RingSize) {
  EXPECT_EQ(with("TRAINTRACE_RING_MB", "1").ring_mb, 1u);
  EXPECT_EQ(with("TRAINTRACE_RING_MB", "65536").ring_mb, 65536u);
  EXPECT_EQ(with("TRAINTRACE_RING_MB", "").ring_mb, 64u);
  for (const char* bad : {"0", "65537", "-1", "12x", "x", " 1", "99999999999999999999"}) {
    const Settings settings = with("TRAINTRACE_RING_MB", bad);
    EXPECT_EQ(settings.ring_mb, 64u) << bad;
    EXPECT_NE(error(settings, Setting::RingMb), nullptr) << bad;
  }
}

TEST(Settings, Choices) {
  EXPECT_EQ(with("TRAINTRACE_STACKS", "off").stacks, Stacks::kOff);
  EXPECT_EQ(with("TRAINTRACE_STACKS", "native").stacks, Stacks::kNative);
  EXPECT_EQ(with("TRAINTRACE_STACKS", "python").stacks, Stacks::kPython);
  EXPECT_TRUE(with("TRAINTRACE_DISABLE", "1").disabled);
  EXPECT_TRUE(with("TRAINTRACE_LOG", "info").log);
  for (const char* bad : {"nativ", "natives", "off|native", "ALL"}) {
    const Settings settings = with("TRAINTRACE_STACKS", bad);
    EXPECT_EQ(settings.stacks, Stacks::kAll) << bad;
    EXPECT_STREQ(error(settings, Setting::Stacks), "not a known value") << bad;
  }
}

TEST(Settings, Mode) {
  EXPECT_FALSE(read_settings().full);
  EXPECT_TRUE(with("TRAINTRACE_MODE", "full").full);
}

TEST(Settings, LevelsOfProgress) {
  EXPECT_EQ(read_settings().gpu_progress, traintrace::GpuProgress::kObserve);
  EXPECT_EQ(with("TRAINTRACE_GPU_PROGRESS", "marks").gpu_progress, traintrace::GpuProgress::kMarks);
  EXPECT_EQ(with("TRAINTRACE_GPU_PROGRESS", "plugin").gpu_progress,
            traintrace::GpuProgress::kPlugin);
}

TEST(Settings, TheTimelineHasToBeAskedFor) {
  EXPECT_FALSE(read_settings().gpu_timeline);
  const Settings settings = with("TRAINTRACE_GPU_TIMELINE", "cupti");
  EXPECT_TRUE(settings.gpu_timeline);
  EXPECT_EQ(error(settings, Setting::GpuTimeline), nullptr);
}

TEST(Settings, Patterns) {
  EXPECT_TRUE(matches_any("*", "cudaMalloc"));
  EXPECT_TRUE(matches_any("nccl*,cudaM*", "cudaMalloc"));
  EXPECT_TRUE(matches_any("cuda?alloc", "cudaMalloc"));
  EXPECT_TRUE(matches_any("*all*c", "cudaMalloc"));
  EXPECT_FALSE(matches_any("nccl*,cuda", "cudaMalloc"));
  EXPECT_FALSE(matches_any("", "cudaMalloc"));
  EXPECT_FALSE(matches_any("cudaMalloc?", "cudaMalloc"));
  // One that takes for ever where every `*` is tried again for every other.
  EXPECT_FALSE(matches_any("*a*a*a*a*a*a*a*a*a*a*a*a*b",
                           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

}  // namespace
