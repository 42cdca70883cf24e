// test: debug=kept
// uses: analyzer
// Names and lines of native frames, of this very program.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "analyzer/symbols/symbolizer.h"
#include "tests/unit/this_program.h"

namespace traintrace {
namespace {

uint64_t g_return_address = 0;
int g_inner_line = 0;
int g_outer_line = 0;

[[gnu::noinline]] void note_caller() {
  g_return_address = reinterpret_cast<uint64_t>(__builtin_return_address(0));
}

[[gnu::always_inline]] inline void inner_of_pair() {
  g_inner_line = __LINE__ + 1;
  note_caller();
  asm volatile("");  // no tail call
}

[[gnu::noinline]] void outer_of_pair() {
  g_outer_line = __LINE__ + 1;
  inner_of_pair();
  asm volatile("");
}

ProcessTrace this_process() {
  ProcessTrace trace;
  trace.modules.push_back(testing::this_program());
  outer_of_pair();
  return trace;
}

void expect_both_functions(const std::vector<NativeFrame>& frames) {
  ASSERT_GE(frames.size(), 2u);
  EXPECT_NE(frames[0].function.find("inner_of_pair"), std::string::npos) << frames[0].function;
  EXPECT_TRUE(frames[0].inlined);
  EXPECT_EQ(frames[0].line, g_inner_line);
  EXPECT_NE(frames[1].function.find("outer_of_pair"), std::string::npos) << frames[1].function;
  EXPECT_FALSE(frames[1].inlined);
  EXPECT_EQ(frames[1].line, g_outer_line);
  EXPECT_TRUE(frames[1].file.ends_with("symbols_native.cc")) << frames[1].file;
}

TEST(SymbolsNative, InlinedFunctionsAreFramesOfTheirOwn) {
  const ProcessTrace trace = this_process();
  ASSERT_FALSE(trace.modules[0].build_id.empty());
  Symbolizer symbolizer;
  expect_both_functions(symbolizer.frames(trace, g_return_address));
}

TEST(SymbolsNative, AnotherBuildOfTheFileTellsNothing) {
  ProcessTrace trace = this_process();
  trace.modules[0].build_id[0] = trace.modules[0].build_id[0] == '0' ? '1' : '0';
  Symbolizer symbolizer;
  const auto& frames = symbolizer.frames(trace, g_return_address);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].function, "");
  EXPECT_EQ(frames[0].offset, g_return_address - trace.modules[0].bias);
  EXPECT_TRUE(native_frame_text(frames[0]).starts_with("unit_symbols_native+0x"));
}

TEST(SymbolsNative, TheSameBuildElsewhereTellsAsMuch) {
  ProcessTrace trace = this_process();
  const ProcessTrace other_rank = trace;
  trace.modules[0].path = "/of/a/container/that/is/gone";
  Symbolizer symbolizer;
  symbolizer.learn(trace);
  symbolizer.learn(other_rank);
  expect_both_functions(symbolizer.frames(trace, g_return_address));
  EXPECT_EQ(symbolizer.frames(trace, g_return_address)[0].module, "/of/a/container/that/is/gone");
}

TEST(SymbolsNative, AnotherBuildElsewhereTellsNothing) {
  ProcessTrace trace = this_process();
  const ProcessTrace other_rank = trace;
  trace.modules[0].path = "/of/a/container/that/is/gone";
  trace.modules[0].build_id = "0123";
  Symbolizer symbolizer;
  symbolizer.learn(other_rank);
  EXPECT_EQ(symbolizer.frames(trace, g_return_address)[0].function, "");
}

TEST(SymbolsNative, AFileThatIsGoneTellsNothing) {
  ProcessTrace trace = this_process();
  trace.modules[0].path = "/nowhere/lib.so";
  trace.modules[0].build_id = "00";
  Symbolizer symbolizer;
  EXPECT_TRUE(
      native_frame_text(symbolizer.frames(trace, g_return_address)[0]).starts_with("lib.so+0x"));
  EXPECT_EQ(native_frame_text(symbolizer.frames(trace, 0x12)[0]), "0x12");
}

class StrippedCopy : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/symbols_native.XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    trace_ = this_process();
    const std::string& program = trace_.modules[0].path;
    ASSERT_EQ(
        std::system(
            ("cd " + folder_ + " && mkdir .debug && objcopy --only-keep-debug " + program +
             " .debug/copy.debug && objcopy --strip-all --add-gnu-debuglink=.debug/copy.debug " +
             program + " copy")
                .c_str()),
        0);
    trace_.modules[0].path = folder_ + "/copy";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  ProcessTrace trace_;
};

TEST_F(StrippedCopy, IsReadWithItsDebugFile) {
  Symbolizer symbolizer;
  expect_both_functions(symbolizer.frames(trace_, g_return_address));
}

TEST_F(StrippedCopy, IsAModuleAndAnOffsetWithoutIt) {
  std::filesystem::remove_all(folder_ + "/.debug");
  Symbolizer symbolizer;
  const NativeFrame& frame = symbolizer.frames(trace_, g_return_address)[0];
  EXPECT_EQ(frame.line, 0);
  EXPECT_TRUE(native_frame_text(frame).starts_with("copy+0x")) << native_frame_text(frame);
}

TEST(SymbolsNative, NamesAreDemangled) {
  EXPECT_EQ(demangled("_Z4stepi"), "step(int)");
  EXPECT_EQ(demangled("_Zno"), "_Zno");
  EXPECT_EQ(demangled("cudaMalloc"), "cudaMalloc");
  EXPECT_EQ(native_frame_text({"f()", "/x/a.cc", 3, "/lib/l.so", 5, false}), "f() at /x/a.cc:3");
  EXPECT_EQ(native_frame_text({"f()", "", 0, "/lib/l.so", 5, false}), "f() (l.so)");
}

}  // namespace
}  // namespace traintrace
