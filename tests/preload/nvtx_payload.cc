// NVTX's payload extension, by which NCCL pops what it has pushed without it.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include "support/nvtx_story.h"
#include "support/roles.h"

namespace {

using namespace preload;

// Calls of NVTX with the names of their ranges.
Lines calls_in(const Folder& folder) {
  EXPECT_EQ(folder.traces().size(), 1u);
  const RawTrace trace = read_raw(folder.traces().at(0));
  EXPECT_EQ(trace.problems, Lines());
  EXPECT_EQ(trace.stats, (std::map<std::string, uint64_t>()));
  Lines story;
  for (const RawRecord& record : trace.records) {
    const std::string& call = trace.name_of(record);
    if (call.starts_with("nvtx")) {
      const bool named = call != "nvtxRangeEnd";
      story.push_back(named ? call + " " + trace.range_names.at(record.values.at(0)) : call);
    }
  }
  for (const format::OpenRanges& ranges : trace.open_ranges) {
    EXPECT_EQ(ranges.state & 0xffff, 0u);
  }
  return story;
}

ROLE(as_nccl_does) {
  cudaFree(nullptr);
  nvtxDomainHandle_t domain = nvtxDomainCreateA("NCCL");
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = nvtxDomainRegisterStringA(domain, "ncclCommInitRank");
  const int values[] = {4, 2};
  const nvtxPayloadData_t payload = {0, sizeof values, values};
  int popped = 0;
  for (int i = 0; i < 100; ++i) {  // more than there are places
    nvtxDomainRangePushEx(domain, &attributes);
    popped = nvtxRangePopPayload(domain, &payload, 1);
  }
  return popped == NVTX_NO_PUSH_POP_TRACKING ? 0 : popped;
}

TEST(NvtxPayload, APopWithAPayloadIsAPop) {
  const Folder folder;
  const Outcome outcome = run(recorded("as_nccl_does", folder));
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.errors;
  const Lines story = calls_in(folder);
  ASSERT_EQ(story.size(), 200u);
  EXPECT_EQ(story[198], "nvtxRangePush NCCL/ncclCommInitRank");
  EXPECT_EQ(story[199], "nvtxRangePop NCCL/ncclCommInitRank");
}

TEST(NvtxPayload, AnotherInjectionLibraryIsCalledToo) {
  const Folder folder;
  Program program = recorded("as_nccl_does", folder);
  program.environment["TRAINTRACE_NVTX_NEXT"] = PRELOAD_FIXTURES "/libnvtx_injection.so";
  const Outcome outcome = run(program);
  EXPECT_TRUE(outcome.exited_with(45)) << outcome.status << outcome.errors;
  EXPECT_NE(outcome.output.find("push ncclCommInitRank in NCCL\npop with 1 payloads in NCCL\n"),
            std::string::npos)
      << outcome.output;
  EXPECT_EQ(calls_in(folder).size(), 200u);
}

ROLE(payloads_alone) {
  cudaFree(nullptr);
  nvtxDomainHandle_t domain = nvtxDomainCreateA("my");
  const int value = 4;
  const nvtxPayloadData_t payload = {0, sizeof value, &value};
  nvtxRangePushPayload(domain, &payload, 1);
  nvtxMarkPayload(nullptr, &payload, 1);
  const nvtxRangeId_t id = nvtxRangeStartPayload(domain, &payload, 1);
  nvtxRangeEndPayload(domain, id, &payload, 1);
  nvtxDomainRangePop(domain);
  return id != 0 && nvtxDomainIsEnabled(domain) == 1 ? 0 : 1;
}

TEST(NvtxPayload, RangesWithoutAMessageHaveNoName) {
  const Folder folder;
  const Outcome outcome = run(recorded("payloads_alone", folder));
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.errors;
  EXPECT_EQ(calls_in(folder), (Lines{"nvtxRangePush my/", "nvtxMark ", "nvtxRangeStart my/",
                                     "nvtxRangeEnd", "nvtxRangePop my/"}));
}

}  // namespace
