// Records of CUPTI: what ran, when, and which call it came from.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

// What the client was told, copied out of its buffers.
struct Seen {
  std::mutex mutex;
  std::vector<CUpti_ActivityKernel10> kernels;
  std::vector<CUpti_ActivityMemcpy6> copies;
  std::vector<CUpti_ActivityMemset4> sets;
  std::vector<CUpti_ActivitySynchronization2> waits;
  std::vector<CUpti_ActivityOverhead3> overheads;
  std::map<uint32_t, std::string> launches;  // by correlation
  size_t buffers = 0;
};
Seen& seen() {
  static Seen& value = *new Seen;
  return value;
}
size_t g_buffer_bytes = 64 << 10;
bool g_refuse_buffers = false;

void requested(uint8_t** buffer, size_t* bytes, size_t* most) {
  *buffer = g_refuse_buffers ? nullptr : static_cast<uint8_t*>(malloc(g_buffer_bytes));
  *bytes = g_refuse_buffers ? 0 : g_buffer_bytes;
  *most = 0;
}

template <class Record>
void keep(std::vector<Record>& into, const CUpti_Activity* record) {
  Record copy;
  memcpy(&copy, record, sizeof copy);
  into.push_back(copy);
}

void completed(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  const std::lock_guard lock(seen().mutex);
  ++seen().buffers;
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        keep(seen().kernels, record);
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        keep(seen().copies, record);
        break;
      case CUPTI_ACTIVITY_KIND_MEMSET:
        keep(seen().sets, record);
        break;
      case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
        keep(seen().waits, record);
        break;
      case CUPTI_ACTIVITY_KIND_OVERHEAD:
        keep(seen().overheads, record);
        break;
      default:
        ADD_FAILURE() << "a record of kind " << record->kind;
    }
  }
  free(buffer);
}

void called(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  const auto* call = static_cast<const CUpti_CallbackData*>(data);
  const char* name = nullptr;
  EXPECT_EQ(cuptiGetCallbackName(domain, id, &name), CUPTI_SUCCESS);
  EXPECT_STREQ(name, call->functionName);
  const std::lock_guard lock(seen().mutex);
  seen().launches[call->correlationId] = name;
}

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_SYNCHRONIZATION};

class Cupti : public testing::Test {
 protected:
  void SetUp() override {
    setenv("SIMGPU_KERNEL_US", "slow=3000,quick=0", 1);
    ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
    ASSERT_EQ(cuptiSubscribe(&subscriber_, called, nullptr), CUPTI_SUCCESS);
    ASSERT_EQ(cuptiActivityRegisterCallbacks(requested, completed), CUPTI_SUCCESS);
    for (const CUpti_ActivityKind kind : kKinds) {
      ASSERT_EQ(cuptiActivityEnable(kind), CUPTI_SUCCESS);
    }
    ASSERT_EQ(cuptiEnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API), CUPTI_SUCCESS);
    ASSERT_EQ(cuModuleLoadData(&module_, "no image of any kind, but long enough to look at"),
              CUDA_SUCCESS);
    flush();
    seen().kernels.clear();
    seen().copies.clear();
    seen().sets.clear();
    seen().waits.clear();
  }
  void TearDown() override {
    for (const CUpti_ActivityKind kind : kKinds) {
      EXPECT_EQ(cuptiActivityDisable(kind), CUPTI_SUCCESS);
    }
    EXPECT_EQ(cuptiUnsubscribe(subscriber_), CUPTI_SUCCESS);
  }
  void launch(const char* name, CUstream stream = nullptr) {
    CUfunction kernel = nullptr;
    ASSERT_EQ(cuModuleGetFunction(&kernel, module_, name), CUDA_SUCCESS);
    ASSERT_EQ(cuLaunchKernel(kernel, 7, 2, 1, 32, 1, 1, 0, stream, nullptr, nullptr), CUDA_SUCCESS);
  }
  static void flush() {
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ASSERT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  }

  CUpti_SubscriberHandle subscriber_ = nullptr;
  CUmodule module_ = nullptr;
};

// The second is launched while the first runs, unless the machine keeps the program for longer.
TEST_F(Cupti, KernelsTakeTheirTimeOneAfterTheOther) {
  const auto now = [] {
    uint64_t time = 0;
    EXPECT_EQ(cuptiGetTimestamp(&time), CUPTI_SUCCESS);
    return time;
  };
  bool queued = false;
  for (int attempt = 0; attempt < 100 && !queued; ++attempt) {
    seen().kernels.clear();
    const uint64_t before = now();
    launch("slow");
    launch("slow");
    const uint64_t launched = now();
    flush();
    const auto& kernels = seen().kernels;
    ASSERT_EQ(kernels.size(), 2u);
    for (const CUpti_ActivityKernel10& kernel : kernels) {
      EXPECT_EQ(kernel.end - kernel.start, 3'000'000u);
      EXPECT_STREQ(kernel.name, "slow");
      EXPECT_EQ(kernel.gridX, 7);
      EXPECT_EQ(kernel.gridY, 2);
      EXPECT_EQ(kernel.blockX, 32);
      EXPECT_EQ(seen().launches[kernel.correlationId], "cuLaunchKernel");
    }
    EXPECT_NE(kernels[1].correlationId, kernels[0].correlationId);
    EXPECT_LE(before, kernels[0].start);
    EXPECT_LE(kernels[1].end, now());
    EXPECT_GE(kernels[1].start, kernels[0].end);
    queued = launched <= kernels[0].end;
    EXPECT_TRUE(!queued || kernels[1].start == kernels[0].end);
  }
  EXPECT_TRUE(queued);
}

TEST_F(Cupti, CopiesSayBetweenWhat) {
  std::vector<char> pageable(1 << 20);
  void* pinned = nullptr;
  void* device = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 1 << 20), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&device, 1 << 20), cudaSuccess);
  const auto copy = [&](void* to, void* from, cudaMemcpyKind kind) {
    ASSERT_EQ(cudaMemcpyAsync(to, from, 1 << 20, kind, nullptr), cudaSuccess);
  };
  copy(device, pinned, cudaMemcpyHostToDevice);
  copy(device, pageable.data(), cudaMemcpyHostToDevice);
  copy(pinned, device, cudaMemcpyDeviceToHost);
  ASSERT_EQ(cudaMemsetAsync(device, 5, 4096, nullptr), cudaSuccess);
  flush();
  const auto& copies = seen().copies;
  ASSERT_EQ(copies.size(), 3u);
  EXPECT_EQ(copies[0].copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
  EXPECT_EQ(copies[0].srcKind, CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
  EXPECT_EQ(copies[1].srcKind, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE);
  EXPECT_EQ(copies[1].dstKind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  EXPECT_EQ(copies[2].copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
  EXPECT_EQ(copies[2].bytes, 1u << 20);
  ASSERT_EQ(seen().sets.size(), 1u);
  EXPECT_EQ(seen().sets[0].bytes, 4096u);
  EXPECT_FALSE(seen().waits.empty());
  cudaFreeHost(pinned);
  cudaFree(device);
}

TEST_F(Cupti, AGraphsNodesComeFromItsLaunch) {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  launch("slow", stream);
  launch("quick", stream);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  flush();
  ASSERT_EQ(seen().kernels.size(), 2u);
  EXPECT_EQ(seen().kernels[0].correlationId, seen().kernels[1].correlationId);
  EXPECT_EQ(seen().launches[seen().kernels[0].correlationId].rfind("cuGraphLaunch", 0), 0u);
}

TEST_F(Cupti, FlushingIsItsOwnWork) {
  ASSERT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_OVERHEAD), CUPTI_SUCCESS);
  uint64_t before = 0;
  uint64_t after = 0;
  ASSERT_EQ(cuptiGetTimestamp(&before), CUPTI_SUCCESS);
  flush();
  ASSERT_EQ(cuptiGetTimestamp(&after), CUPTI_SUCCESS);
  flush();  // which hands over the record of the first
  EXPECT_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_OVERHEAD), CUPTI_SUCCESS);
  ASSERT_EQ(seen().overheads.size(), 1u);
  const CUpti_ActivityOverhead3& overhead = seen().overheads[0];
  EXPECT_EQ(overhead.overheadKind, CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH);
  EXPECT_EQ(overhead.objectId.pt.threadId, static_cast<uint32_t>(gettid()));
  EXPECT_LE(before, overhead.start);
  EXPECT_LE(overhead.start, overhead.end);
  EXPECT_LE(overhead.end, after);
}

TEST_F(Cupti, ThereIsOneSubscriber) {
  CUpti_SubscriberHandle other = nullptr;
  EXPECT_EQ(cuptiSubscribe(&other, called, nullptr),
            CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
}

TEST_F(Cupti, WhatFindsNoBufferIsCounted) {
  g_refuse_buffers = true;
  launch("quick");
  flush();
  g_refuse_buffers = false;
  size_t dropped = 0;
  ASSERT_EQ(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), CUPTI_SUCCESS);
  EXPECT_GE(dropped, 1u);
  EXPECT_TRUE(seen().kernels.empty());
}

// Without anybody who asks.
TEST_F(Cupti, FullBuffersAreHandedOver) {
  g_buffer_bytes = 4 * sizeof(CUpti_ActivityKernel10);
  const size_t before = seen().buffers;
  for (int i = 0; i < 40; ++i) {
    launch("quick");
  }
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  // The thread that hands them over may still be at the last full one when a flush is done.
  const auto seen_kernels = [] {
    const std::lock_guard lock(seen().mutex);
    return seen().kernels.size();
  };
  for (int i = 0; i < 20'000 && seen_kernels() < 36; ++i) {
    usleep(1000);
  }
  EXPECT_GE(seen_kernels(), 36u);
  flush();
  for (int i = 0; i < 20'000 && seen_kernels() < 40; ++i) {
    usleep(1000);
  }
  EXPECT_EQ(seen_kernels(), 40u);
  const std::lock_guard lock(seen().mutex);
  EXPECT_GE(seen().buffers, before + 10);
  g_buffer_bytes = 64 << 10;
}

}  // namespace
