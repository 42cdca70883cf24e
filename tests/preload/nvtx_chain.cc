// test: timeout=120
// Another injection library of NVTX beside the tracer, and the tracer where that should be.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include <filesystem>

#include "support/nvtx_story.h"
#include "support/roles.h"

namespace {

using namespace preload;
namespace fs = std::filesystem;

Lines split(const std::string& text) {
  Lines lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end == text.npos ? text.size() : end + 1;
  }
  return lines;
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

TEST(NvtxChain, AnotherInjectionLibraryIsCalledToo) {
  const Folder folder;
  Program program = recorded("chained", folder);
  program.environment["TRAINTRACE_NVTX_NEXT"] = kTheirs;
  const Outcome outcome = run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.errors;
  EXPECT_EQ(split(outcome.output), kTheirStory);
  const std::vector<RawTrace> traces = traces_in(folder);
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_EQ(story_of_main(traces[0]), kChainedStory);
}

TEST(NvtxChain, AnotherInjectionLibraryIsAllThatIsCalledWhereNothingIsRecorded) {
  const Folder folder;
  Program program = recorded("chained", folder);
  program.environment["TRAINTRACE_NVTX_NEXT"] = kTheirs;
  program.environment["TRAINTRACE_DISABLE"] = "1";
  const Outcome outcome = run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.errors;
  EXPECT_EQ(split(outcome.output), kTheirStory);
  EXPECT_TRUE(folder.traces().empty());
}

TEST(NvtxChain, AnInjectionLibraryThatIsNoneIsToldAndRangesAreRecorded) {
  const Folder folder;
  Program program = recorded("chained", folder);
  program.environment["TRAINTRACE_NVTX_NEXT"] = "/nowhere/libtool.so";
  const Outcome outcome = run(program);
  EXPECT_EQ(outcome.errors,
            "traintrace: TRAINTRACE_NVTX_NEXT=/nowhere/libtool.so: no NVTX injection library\n");
  const std::vector<RawTrace> traces = traces_in(folder);
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_EQ(story_of_main(traces[0]), kChainedStory);
}

// `traintrace run` sets both variables.
TEST(NvtxChain, RunListensAndGoesOnToWhoWasToListen) {
  const Folder folder;
  Program program = self("chained");
  program.command.insert(program.command.begin(), {TRAINTRACE_BINARY, "run", "--"});
  program.traced = false;
  program.environment = {{"TRAINTRACE_DIR", folder.path()}, {"NVTX_INJECTION64_PATH", kTheirs}};
  const Outcome outcome = run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.errors;
  EXPECT_EQ(split(outcome.output), kTheirStory);
  const std::vector<RawTrace> traces = traces_in(folder);
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_EQ(story_of_main(traces[0]), kChainedStory);
}

// What chained() leaves where nothing but the tracer listens.
void expect_recorded_once(const Program& program, const Folder& folder) {
  const Outcome outcome = run(program);
  EXPECT_TRUE(outcome.exited_with(1)) << outcome.status << outcome.errors;  // nobody answered 41
  EXPECT_EQ(outcome.output, "");
  const std::vector<RawTrace> traces = traces_in(folder);
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_EQ(story_of_main(traces[0]), kChainedStory);
}

TEST(NvtxChain, TheTracerItselfIsNoOtherLibrary) {
  const Folder libraries;
  const std::string link = libraries.path() + "/libother.so";
  const std::string copy = libraries.path() + "/libtraintrace.so";
  fs::create_symlink(kLibrary, link);
  fs::copy_file(kLibrary, copy);
  for (const std::string& library : {kLibrary, link, copy}) {
    for (const char* const disabled : {"0", "1"}) {
      SCOPED_TRACE(library + ", disabled " + disabled);
      const Folder folder;
      Program program = recorded("chained", folder);
      program.environment["TRAINTRACE_NVTX_NEXT"] = library;
      if (*disabled == '0') {
        expect_recorded_once(program, folder);
        continue;
      }
      program.environment["TRAINTRACE_DISABLE"] = "1";
      EXPECT_TRUE(run(program).exited_with(1));
      EXPECT_TRUE(folder.traces().empty());
    }
  }
}

// As with a link to the library in the environment, and `traintrace run`.
TEST(NvtxChain, RunTakesALinkToTheTracerForTheTracer) {
  const Folder libraries;
  const std::string link = libraries.path() + "/libtraintrace.so";
  fs::create_symlink(kLibrary, link);
  const Folder folder;
  Program program = self("chained");
  program.command.insert(program.command.begin(), {TRAINTRACE_BINARY, "run", "--"});
  program.traced = false;
  program.environment = {{"TRAINTRACE_DIR", folder.path()}, {"NVTX_INJECTION64_PATH", link}};
  expect_recorded_once(program, folder);
}

}  // namespace
