// Memory calls while a stream is captured.
#include "memory_support.h"

namespace {

const bool g_alone = (be_alone(), true);

class Captured : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    CU_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }
  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    CU_OK(cuStreamBeginCapture(stream_, mode));
  }
  CUgraphExec end() {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    return exec;
  }
  CUstream stream_ = nullptr;
};

TEST_F(Captured, PageableSourcesAreReadAtTheLaunch) {
  const CUdeviceptr a = allocate(4096);
  std::vector<int> source(1024, 1), result(1024);
  begin();
  CU_OK(cuMemcpyHtoDAsync(a, source.data(), 4096, stream_));
  CU_OK(cuMemcpyDtoHAsync(result.data(), a, 4096, stream_));  // pageable, yet nothing waits
  CUgraphExec exec = end();
  for (const int value : {2, 3}) {
    std::fill(source.begin(), source.end(), value);
    CU_OK(cuGraphLaunch(exec, stream_));
    CU_OK(cuStreamSynchronize(stream_));
    EXPECT_EQ(result, source);
  }
  CU_OK(cuGraphExecDestroy(exec));
}

TEST_F(Captured, AllocatingIsUnsafeUnlessRelaxed) {
  begin();
  CUdeviceptr a = 0;
  EXPECT_EQ(cuMemAlloc(&a, 512), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  CU_OK(cuMemAlloc(&a, 512));
  CU_OK(cuMemsetD8Async(a, 1, 512, stream_));
  CU_OK(cuGraphExecDestroy(end()));
  CU_OK(cuMemFree(a));
}

TEST_F(Captured, StreamOrderedAllocationsBelongToTheGraph) {
  const CUdeviceptr out = allocate(512);
  const size_t before = free_bytes();
  CUdeviceptr a = 0, ordinary = 0;
  CU_OK(cuMemAllocAsync(&ordinary, 512, stream_));
  begin();
  CU_OK(cuMemAllocAsync(&a, 1 << 20, stream_));
  CU_OK(cuMemsetD8Async(a, 7, 512, stream_));
  CU_OK(cuMemcpyDtoDAsync(out, a, 512, stream_));
  EXPECT_EQ(cuMemFreeAsync(ordinary, stream_), CUDA_ERROR_INVALID_VALUE);  // not the graph's
  CU_OK(cuMemFreeAsync(a, stream_));
  CUgraphExec exec = end();
  CU_OK(cuMemFreeAsync(ordinary, stream_));
  for (int i = 0; i < 3; ++i) {
    CU_OK(cuMemsetD8Async(out, 0, 512, stream_));
    CU_OK(cuGraphLaunch(exec, stream_));
  }
  CU_OK(cuStreamSynchronize(stream_));
  unsigned char value = 0;
  CU_OK(cuMemcpyDtoH(&value, out, 1));
  EXPECT_EQ(value, 7);
  EXPECT_LT(free_bytes(), before);  // kept for the next launch
  EXPECT_EQ(cuMemcpyDtoHAsync(&value, a, 1, stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
  cuGraphExecDestroy(exec);
}

TEST_F(Captured, FreedGraphMemoryIsGivenBackByTrim) {
  const size_t before = free_bytes();
  CUdeviceptr a = 0;
  begin();
  CU_OK(cuMemAllocAsync(&a, 1 << 20, stream_));
  CUgraphExec exec = end();
  CU_OK(cuGraphLaunch(exec, stream_));
  CU_OK(cuMemsetD8Async(a, 1, 1 << 20, stream_));                     // usable behind the launch
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_ERROR_INVALID_VALUE);  // still allocated
  CU_OK(cuMemFreeAsync(a, stream_));
  CU_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(before - free_bytes(), size_t{2} << 20);
  CU_OK(cuDeviceGraphMemTrim(0));
  EXPECT_EQ(free_bytes(), before);
  CU_OK(cuGraphLaunch(exec, stream_));
  CU_OK(cuStreamSynchronize(stream_));
  CU_OK(cuMemFree(a));
  EXPECT_EQ(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
  CU_OK(cuGraphExecDestroy(exec));
  EXPECT_EQ(free_bytes(), before);
}

}  // namespace
