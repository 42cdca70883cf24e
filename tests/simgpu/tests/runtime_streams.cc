// Streams, events, callbacks, capture through the runtime.
#include <cstring>

#include "runtime_support.h"

extern "C" {
cudaError_t cudaStreamQuery_ptsz(cudaStream_t);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t);
cudaError_t cudaEventRecord_ptsz(cudaEvent_t, cudaStream_t);
cudaError_t cudaStreamGetId_ptsz(cudaStream_t, unsigned long long*);
}

namespace {

const bool g_alone = (be_alone(), true);

TEST(Streams, HaveFlagsPrioritiesIdsAndDevices) {
  cudaStream_t stream;
  RT_OK(cudaSetDevice(1));
  RT_OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -1));
  unsigned flags = 0;
  int priority = 0, device = -1;
  unsigned long long id = 0, legacy = 0;
  RT_OK(cudaStreamGetFlags(stream, &flags));
  RT_OK(cudaStreamGetPriority(stream, &priority));
  RT_OK(cudaStreamGetDevice(stream, &device));
  RT_OK(cudaStreamGetId(stream, &id));
  RT_OK(cudaStreamGetId(nullptr, &legacy));
  EXPECT_EQ(flags, static_cast<unsigned>(cudaStreamNonBlocking));
  EXPECT_EQ(priority, -1);
  EXPECT_EQ(device, 1);
  EXPECT_NE(id, legacy);
  RT_OK(cudaStreamDestroy(stream));
  RT_OK(cudaSetDevice(0));
}

TEST(Streams, DefaultOnesCannotBeDestroyed) {
  EXPECT_EQ(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(cudaStreamPerThread), cudaErrorInvalidResourceHandle);
  (void)cudaGetLastError();
}

TEST(Streams, LegacyAndPerThreadAreDifferentStreams) {
  unsigned long long legacy = 0, own = 0, named = 0;
  RT_OK(cudaStreamGetId(nullptr, &legacy));
  RT_OK(cudaStreamGetId_ptsz(nullptr, &own));
  RT_OK(cudaStreamGetId(cudaStreamPerThread, &named));
  EXPECT_NE(legacy, own);
  EXPECT_EQ(own, named);
  cudaStream_t stream;
  RT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  {
    Gate gate(cudaStreamPerThread);
    EXPECT_EQ(cudaStreamQuery_ptsz(nullptr), cudaErrorNotReady);
    RT_OK(cudaStreamQuery(stream));
  }
  RT_OK(cudaStreamSynchronize_ptsz(nullptr));
  RT_OK(cudaStreamDestroy(stream));
  (void)cudaGetLastError();
}

TEST(Streams, CallbacksGetTheRuntimesArguments) {
  struct Seen {
    cudaStream_t stream = nullptr;
    cudaError_t status = cudaErrorUnknown;
    std::atomic<int> calls = 0;
  } seen;
  cudaStream_t stream;
  RT_OK(cudaStreamCreate(&stream));
  const cudaStreamCallback_t callback = [](cudaStream_t on, cudaError_t status, void* user) {
    auto* out = static_cast<Seen*>(user);
    out->stream = on;
    out->status = status;
    ++out->calls;
  };
  RT_OK(cudaStreamAddCallback(stream, callback, &seen, 0));
  RT_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(seen.stream, stream);
  EXPECT_EQ(seen.status, cudaSuccess);
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(cudaStreamAddCallback(stream, callback, &seen, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamAddCallback(stream, nullptr, &seen, 0), cudaErrorInvalidValue);
  (void)cudaGetLastError();
  RT_OK(cudaStreamDestroy(stream));
}

TEST(Streams, Attributes) {
  cudaStream_t a, b;
  RT_OK(cudaStreamCreate(&a));
  RT_OK(cudaStreamCreate(&b));
  cudaLaunchAttributeValue value = {};
  value.syncPolicy = cudaSyncPolicyBlockingSync;
  RT_OK(cudaStreamSetAttribute(a, cudaLaunchAttributeSynchronizationPolicy, &value));
  RT_OK(cudaStreamCopyAttributes(b, a));
  value = {};
  RT_OK(cudaStreamGetAttribute(b, cudaLaunchAttributeSynchronizationPolicy, &value));
  EXPECT_EQ(value.syncPolicy, cudaSyncPolicyBlockingSync);
  RT_OK(cudaStreamDestroy(a));
  RT_OK(cudaStreamDestroy(b));
}

TEST(Events, OrderStreams) {
  cudaStream_t a, b;
  cudaEvent_t event;
  RT_OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  RT_OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  RT_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  RT_OK(cudaEventQuery(event));  // never recorded
  {
    Gate gate(a);
    RT_OK(cudaEventRecord(event, a));
    RT_OK(cudaStreamWaitEvent(b, event, 0));
    EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
    EXPECT_EQ(cudaStreamQuery(b), cudaErrorNotReady);
  }
  RT_OK(cudaStreamSynchronize(b));
  RT_OK(cudaEventQuery(event));
  (void)cudaGetLastError();
  RT_OK(cudaEventDestroy(event));
  RT_OK(cudaStreamDestroy(a));
  RT_OK(cudaStreamDestroy(b));
}

TEST(Events, MeasureTime) {
  cudaStream_t stream;
  cudaEvent_t start, end, untimed;
  RT_OK(cudaStreamCreate(&stream));
  RT_OK(cudaEventCreate(&start));
  RT_OK(cudaEventCreate(&end));
  RT_OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  RT_OK(cudaEventRecord(start, stream));
  RT_OK(cudaLaunchHostFunc(
      stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }, nullptr));
  RT_OK(cudaEventRecord(end, stream));
  RT_OK(cudaEventRecord(untimed, stream));
  RT_OK(cudaEventSynchronize(end));
  float ms = 0;
  RT_OK(cudaEventElapsedTime(&ms, start, end));
  EXPECT_GE(ms, 4.f);
  RT_OK(cudaEventSynchronize(untimed));
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, untimed), cudaErrorInvalidResourceHandle);
  (void)cudaGetLastError();
  RT_OK(cudaEventDestroy(start));
  RT_OK(cudaEventDestroy(end));
  RT_OK(cudaEventDestroy(untimed));
  RT_OK(cudaStreamDestroy(stream));
}

TEST(Events, PerThreadRecord) {
  cudaEvent_t event;
  RT_OK(cudaEventCreate(&event));
  {
    Gate gate(cudaStreamPerThread);
    RT_OK(cudaEventRecord_ptsz(event, nullptr));
    EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  }
  RT_OK(cudaEventSynchronize(event));
  (void)cudaGetLastError();
  RT_OK(cudaEventDestroy(event));
}

TEST(Capture, MakesAGraph) {
  cudaStream_t stream;
  RT_OK(cudaStreamCreate(&stream));
  void* memory = nullptr;
  RT_OK(cudaMalloc(&memory, 16));
  cudaStreamCaptureStatus status;
  RT_OK(cudaStreamIsCapturing(stream, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  RT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  RT_OK(cudaMemsetAsync(memory, 1, 16, stream));
  RT_OK(cudaMemsetAsync(memory, 2, 8, stream));
  unsigned long long id = 0;
  cudaGraph_t building = nullptr, graph = nullptr;
  const cudaGraphNode_t* last = nullptr;
  size_t count = 0;
  RT_OK(cudaStreamGetCaptureInfo(stream, &status, &id, &building, &last, nullptr, &count));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_NE(id, 0u);
  EXPECT_EQ(count, 1u);
  RT_OK(cudaStreamEndCapture(stream, &graph));
  RT_OK(cudaGraphGetNodes(graph, nullptr, &count));
  EXPECT_EQ(count, 2u);
  cudaGraphExec_t exec;
  RT_OK(cudaGraphInstantiate(&exec, graph, 0));
  RT_OK(cudaGraphLaunch(exec, stream));
  RT_OK(cudaStreamSynchronize(stream));
  unsigned char back[16];
  RT_OK(cudaMemcpy(back, memory, 16, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back[7], 2);
  EXPECT_EQ(back[8], 1);
  RT_OK(cudaGraphExecDestroy(exec));
  RT_OK(cudaGraphDestroy(graph));
  RT_OK(cudaFree(memory));
  RT_OK(cudaStreamDestroy(stream));
}

TEST(Capture, ForbidsWhatSynchronises) {
  cudaStream_t stream;
  RT_OK(cudaStreamCreate(&stream));
  RT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
  RT_OK(cudaStreamDestroy(stream));
}

}  // namespace
