// Copies and sets of every shape, checked byte by byte.
#include <cuda.h>

#include <cstring>
#include <numeric>

#include "runtime_support.h"

// Declared by the vendor's header only inside its own build.
extern "C" {
cudaError_t cudaMemcpy_ptds(void*, const void*, size_t, cudaMemcpyKind);
cudaError_t cudaMemcpyAsync_ptsz(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemcpy2D_ptds(void*, size_t, const void*, size_t, size_t, size_t, cudaMemcpyKind);
cudaError_t cudaMemset_ptds(void*, int, size_t);
// Of CUDA 13.2.
cudaError_t cudaMemcpyWithAttributesAsync(void*, const void*, size_t, cudaMemcpyAttributes*,
                                          cudaStream_t);
cudaError_t cudaMemset2DAsync_ptsz(void*, size_t, int, size_t, size_t, cudaStream_t);
}

// Some of the functions tested here are deprecated, and exported all the same.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

const bool g_alone = (be_alone(), true);

using Bytes = std::vector<unsigned char>;

Bytes counting(size_t bytes, unsigned char first = 0) {
  Bytes data(bytes);
  std::iota(data.begin(), data.end(), first);
  return data;
}

// Device memory that is freed at the end of a test.
class Device {
 public:
  explicit Device(size_t bytes) { EXPECT_EQ(cudaMalloc(&memory_, bytes), cudaSuccess); }
  explicit Device(const Bytes& data) : Device(data.size()) {
    EXPECT_EQ(cudaMemcpy(memory_, data.data(), data.size(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~Device() { EXPECT_EQ(cudaFree(memory_), cudaSuccess); }
  void* get() const { return memory_; }
  Bytes read(size_t bytes) const {
    Bytes data(bytes);
    EXPECT_EQ(cudaMemcpy(data.data(), memory_, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    return data;
  }

 private:
  void* memory_ = nullptr;
};

TEST(Copies, OneDimensionInAllDirections) {
  const Bytes data = counting(1000);
  Device a(data), b(1000);
  RT_OK(cudaMemcpy(b.get(), a.get(), 1000, cudaMemcpyDeviceToDevice));
  EXPECT_EQ(b.read(1000), data);
  Bytes host(1000), other(1000);
  RT_OK(cudaMemcpy(host.data(), b.get(), 1000, cudaMemcpyDefault));
  EXPECT_EQ(host, data);
  RT_OK(cudaMemcpy(other.data(), host.data(), 1000, cudaMemcpyHostToHost));
  EXPECT_EQ(other, data);
  const Bytes reversed(data.rbegin(), data.rend());
  RT_OK(cudaMemcpy(a.get(), reversed.data(), 1000, cudaMemcpyDefault));
  EXPECT_EQ(a.read(1000), reversed);
}

TEST(Copies, RefusesWrongDirectionsAndPointers) {
  Device a(16);
  char host[16] = {};
  EXPECT_EQ(cudaMemcpy(a.get(), host, 16, static_cast<cudaMemcpyKind>(7)),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemcpy(host, nullptr, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(a.get(), host, size_t{1} << 30, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  RT_OK(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice));
  (void)cudaGetLastError();
}

TEST(Copies, AsyncKeepsTheOrderOfItsStream) {
  cudaStream_t stream;
  RT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Device a(256);
  unsigned char* pinned = nullptr;
  RT_OK(cudaMallocHost(reinterpret_cast<void**>(&pinned), 256));
  memset(pinned, 1, 256);
  {
    Gate gate(stream);
    RT_OK(cudaMemsetAsync(a.get(), 5, 256, stream));
    RT_OK(cudaMemcpyAsync(pinned, a.get(), 256, cudaMemcpyDeviceToHost, stream));
    EXPECT_EQ(pinned[0], 1);
  }
  RT_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(pinned[255], 5);
  RT_OK(cudaFreeHost(pinned));
  RT_OK(cudaStreamDestroy(stream));
}

TEST(Copies, BetweenDevices) {
  const Bytes data = counting(500, 3);
  RT_OK(cudaSetDevice(1));
  Device far(500);
  RT_OK(cudaSetDevice(0));
  Device near(data);
  RT_OK(cudaMemcpyPeer(far.get(), 1, near.get(), 0, 500));
  EXPECT_EQ(far.read(500), data);
  RT_OK(cudaMemset(near.get(), 0, 500));
  RT_OK(cudaMemcpyPeerAsync(near.get(), 0, far.get(), 1, 500, nullptr));
  EXPECT_EQ(near.read(500), data);
  EXPECT_EQ(cudaMemcpyPeer(far.get(), 9, near.get(), 0, 1), cudaErrorInvalidDevice);
  (void)cudaGetLastError();
}

TEST(Copies, TwoDimensions) {
  constexpr size_t kWidth = 20, kHeight = 7, kHostPitch = 32;
  void* memory = nullptr;
  size_t pitch = 0;
  RT_OK(cudaMallocPitch(&memory, &pitch, kWidth, kHeight));
  EXPECT_GE(pitch, kWidth);
  const Bytes data = counting(kHostPitch * kHeight);
  RT_OK(cudaMemset2D(memory, pitch, 0xee, kWidth, kHeight));
  RT_OK(cudaMemcpy2D(memory, pitch, data.data(), kHostPitch, kWidth - 4, kHeight,
                     cudaMemcpyHostToDevice));
  Bytes back(kHostPitch * kHeight, 0x77);
  RT_OK(cudaMemcpy2DAsync(back.data(), kHostPitch, memory, pitch, kWidth, kHeight,
                          cudaMemcpyDeviceToHost, nullptr));
  RT_OK(cudaDeviceSynchronize());
  for (size_t i = 0; i < back.size(); ++i) {
    const size_t x = i % kHostPitch;
    EXPECT_EQ(back[i], x < kWidth - 4 ? data[i] : x < kWidth ? 0xee : 0x77) << i;
  }
  EXPECT_EQ(cudaMemcpy2D(memory, pitch, data.data(), 8, kWidth, kHeight, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
  (void)cudaGetLastError();
  RT_OK(cudaFree(memory));
}

TEST(Copies, ThreeDimensions) {
  constexpr cudaExtent kExtent = {10, 4, 3};
  cudaPitchedPtr memory = {};
  RT_OK(cudaMalloc3D(&memory, kExtent));
  EXPECT_EQ(memory.xsize, kExtent.width);
  EXPECT_EQ(memory.ysize, kExtent.height);
  RT_OK(cudaMemset3D(memory, 9, kExtent));
  const Bytes data = counting(kExtent.width * kExtent.height * kExtent.depth);
  cudaMemcpy3DParms parms = {};
  parms.srcPtr = {const_cast<unsigned char*>(data.data()), kExtent.width, kExtent.width,
                  kExtent.height};
  parms.srcPos = {2, 1, 1};
  parms.dstPtr = memory;
  parms.dstPos = {0, 0, 1};
  parms.extent = {5, 2, 2};
  parms.kind = cudaMemcpyHostToDevice;
  RT_OK(cudaMemcpy3D(&parms));
  Bytes back(data.size());
  parms = {};
  parms.srcPtr = memory;
  parms.dstPtr = {back.data(), kExtent.width, kExtent.width, kExtent.height};
  parms.extent = kExtent;
  parms.kind = cudaMemcpyDeviceToHost;
  RT_OK(cudaMemcpy3DAsync(&parms, nullptr));
  RT_OK(cudaDeviceSynchronize());
  const auto at = [&](size_t x, size_t y, size_t z) { return (z * 4 + y) * 10 + x; };
  for (size_t z = 0; z < 3; ++z) {
    for (size_t y = 0; y < 4; ++y) {
      for (size_t x = 0; x < 10; ++x) {
        const bool copied = x < 5 && y < 2 && z >= 1;
        EXPECT_EQ(back[at(x, y, z)], copied ? data[at(x + 2, y + 1, z)] : 9)
            << x << ' ' << y << ' ' << z;
      }
    }
  }
  parms.srcArray = reinterpret_cast<cudaArray_t>(&parms);  // a second source
  EXPECT_EQ(cudaMemcpy3D(&parms), cudaErrorInvalidValue);
  (void)cudaGetLastError();
  RT_OK(cudaFree(memory.ptr));
}

TEST(Copies, ThreeDimensionsWithPartOfASlice) {
  constexpr cudaExtent kExtent = {8, 4, 2};
  cudaPitchedPtr memory = {};
  RT_OK(cudaMalloc3D(&memory, kExtent));
  RT_OK(cudaMemset3D(memory, 1, kExtent));
  RT_OK(cudaMemset3DAsync(memory, 2, {8, 2, 2}, nullptr));  // upper half of each slice
  Bytes back(64);
  RT_OK(cudaMemcpy2D(back.data(), 8, memory.ptr, memory.pitch, 8, 8, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < back.size(); ++i) {
    EXPECT_EQ(back[i], i / 8 % 4 < 2 ? 2 : 1) << i;
  }
  RT_OK(cudaFree(memory.ptr));
}

TEST(Copies, ThreeDimensionsBetweenDevices) {
  const Bytes data = counting(6 * 5 * 4);
  RT_OK(cudaSetDevice(1));
  Device far(data.size());
  RT_OK(cudaSetDevice(0));
  Device near(data);
  cudaMemcpy3DPeerParms parms = {};
  parms.srcPtr = {near.get(), 6, 6, 5};
  parms.dstPtr = {far.get(), 6, 6, 5};
  parms.srcDevice = 0;
  parms.dstDevice = 1;
  parms.extent = {6, 5, 4};
  RT_OK(cudaMemcpy3DPeer(&parms));
  EXPECT_EQ(far.read(data.size()), data);
}

TEST(Copies, ToFromAndBetweenArrays) {
  constexpr size_t kWidth = 6, kHeight = 4, kRow = kWidth * sizeof(float);
  const cudaChannelFormatDesc desc = {32, 0, 0, 0, cudaChannelFormatKindFloat};
  cudaArray_t a, b;
  RT_OK(cudaMallocArray(&a, &desc, kWidth, kHeight, 0));
  RT_OK(cudaMallocArray(&b, &desc, kWidth, kHeight, 0));
  const Bytes data = counting(kRow * kHeight);
  RT_OK(cudaMemcpy2DToArray(a, 0, 0, data.data(), kRow, kRow, kHeight, cudaMemcpyHostToDevice));
  RT_OK(cudaMemcpy2DArrayToArray(b, 0, 0, a, 0, 0, kRow, kHeight, cudaMemcpyDeviceToDevice));
  Bytes back(data.size());
  RT_OK(cudaMemcpy2DFromArray(back.data(), kRow, b, 0, 0, kRow, kHeight, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back, data);

  // Rows are continued in the next one.
  const Bytes piece = counting(kRow + 8, 100);
  RT_OK(cudaMemcpyToArray(a, 12, 1, piece.data(), piece.size(), cudaMemcpyHostToDevice));
  Bytes got(piece.size());
  RT_OK(cudaMemcpyFromArray(got.data(), a, 12, 1, got.size(), cudaMemcpyDeviceToHost));
  EXPECT_EQ(got, piece);
  Bytes whole(data.size());
  RT_OK(cudaMemcpy2DFromArray(whole.data(), kRow, a, 0, 0, kRow, kHeight, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < whole.size(); ++i) {
    const bool replaced = i >= kRow + 12 && i < kRow + 12 + piece.size();
    EXPECT_EQ(whole[i], replaced ? piece[i - kRow - 12] : data[i]) << i;
  }

  cudaChannelFormatDesc found;
  cudaExtent extent;
  unsigned flags = 1;
  RT_OK(cudaArrayGetInfo(&found, &extent, &flags, a));
  EXPECT_EQ(found.x, 32);
  EXPECT_EQ(found.f, cudaChannelFormatKindFloat);
  EXPECT_EQ(extent.width, kWidth);
  EXPECT_EQ(extent.height, kHeight);

  // In three-dimensional copies with an array the width counts its elements.
  cudaMemcpy3DParms parms = {};
  parms.srcArray = b;
  parms.srcPos = {1, 2, 0};
  parms.dstPtr = {back.data(), kRow, kRow, 1};
  parms.extent = {2, 1, 1};
  parms.kind = cudaMemcpyDeviceToHost;
  RT_OK(cudaMemcpy3D(&parms));
  EXPECT_EQ(memcmp(back.data(), data.data() + 2 * kRow + 4, 8), 0);
  RT_OK(cudaFreeArray(a));
  RT_OK(cudaFreeArray(b));
  const cudaChannelFormatDesc uneven = {32, 16, 0, 0, cudaChannelFormatKindFloat};
  EXPECT_EQ(cudaMallocArray(&a, &uneven, 4, 4, 0), cudaErrorInvalidChannelDescriptor);
  (void)cudaGetLastError();
}

TEST(Copies, Batches) {
  const Bytes data = counting(300);
  Device a(data), b(300);
  void* targets[] = {b.get(), static_cast<char*>(b.get()) + 200};
  const void* sources[] = {static_cast<char*>(a.get()) + 100, a.get()};
  size_t bytes[] = {200, 100};
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t index = 0;
  cudaStream_t stream;
  RT_OK(cudaStreamCreate(&stream));
  RT_OK(cudaMemcpyBatchAsync(targets, sources, bytes, 2, &attributes, &index, 1, stream));
  RT_OK(cudaStreamSynchronize(stream));
  const Bytes got = b.read(300);
  for (size_t i = 0; i < 300; ++i) {
    EXPECT_EQ(got[i], data[i < 200 ? i + 100 : i - 200]) << i;
  }
  RT_OK(cudaStreamDestroy(stream));
}

TEST(Copies, OneWithAttributes) {
  const Bytes data = counting(300);
  Device a(data), b(300);
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  cudaStream_t stream;
  RT_OK(cudaStreamCreate(&stream));
  RT_OK(cudaMemcpyWithAttributesAsync(b.get(), a.get(), 300, &attributes, stream));
  RT_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(b.read(300), data);
  EXPECT_EQ(cudaMemcpyWithAttributesAsync(b.get(), a.get(), 300, nullptr, stream),
            cudaErrorInvalidValue);
  (void)cudaGetLastError();
  RT_OK(cudaStreamDestroy(stream));
}

TEST(Copies, PerThreadVariants) {
  const Bytes data = counting(64);
  Device a(64);
  RT_OK(cudaMemcpy_ptds(a.get(), data.data(), 64, cudaMemcpyHostToDevice));
  Bytes back(64);
  RT_OK(cudaMemcpy2D_ptds(back.data(), 8, a.get(), 8, 8, 8, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back, data);
  // The legacy stream waits for nothing that another thread's own stream does not: only the
  // per-thread one of this thread is held back here.
  Bytes late(64, 0xff);
  {
    Gate gate(cudaStreamPerThread);
    RT_OK(cudaMemset2DAsync_ptsz(a.get(), 8, 7, 8, 8, nullptr));
    EXPECT_EQ(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
    (void)cudaGetLastError();
  }
  RT_OK(cudaMemcpyAsync_ptsz(late.data(), a.get(), 64, cudaMemcpyDeviceToHost, nullptr));
  RT_OK(cudaStreamSynchronize(cudaStreamPerThread));
  EXPECT_EQ(late, Bytes(64, 7));
}

TEST(Pointers, KindsOfMemory) {
  void *device, *managed, *pinned;
  char plain[16];
  RT_OK(cudaMalloc(&device, 16));
  RT_OK(cudaMallocManaged(&managed, 16, cudaMemAttachGlobal));
  RT_OK(cudaHostAlloc(&pinned, 16, cudaHostAllocMapped));
  cudaPointerAttributes attributes;
  RT_OK(cudaPointerGetAttributes(&attributes, device));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(attributes.devicePointer, device);
  RT_OK(cudaPointerGetAttributes(&attributes, managed));
  EXPECT_EQ(attributes.type, cudaMemoryTypeManaged);
  RT_OK(cudaPointerGetAttributes(&attributes, pinned));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.hostPointer, pinned);
  RT_OK(cudaPointerGetAttributes(&attributes, plain));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(attributes.devicePointer, nullptr);
  RT_OK(cudaFree(device));
  RT_OK(cudaFree(managed));
  RT_OK(cudaFreeHost(pinned));
}

TEST(Pointers, RegisteredMemory) {
  std::vector<char> memory(1 << 16);
  RT_OK(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterMapped));
  EXPECT_EQ(cudaHostRegister(memory.data(), memory.size(), 0),
            cudaErrorHostMemoryAlreadyRegistered);
  void* device = nullptr;
  RT_OK(cudaHostGetDevicePointer(&device, memory.data(), 0));
  RT_OK(cudaMemset(device, 3, 8));
  RT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(memory[7], 3);
  RT_OK(cudaHostUnregister(memory.data()));
  EXPECT_EQ(cudaHostUnregister(memory.data()), cudaErrorHostMemoryNotRegistered);
  (void)cudaGetLastError();
}

// Handles travel as text in the environment.
template <class Handle>
std::string to_text(const Handle& handle) {
  std::string text;
  for (const char c : handle.reserved) {
    text += static_cast<char>('a' + (c >> 4 & 15));
    text += static_cast<char>('a' + (c & 15));
  }
  return text;
}

template <class Handle>
Handle from_text(const char* text) {
  Handle handle;
  for (char& c : handle.reserved) {
    c = static_cast<char>((text[0] - 'a') << 4 | (text[1] - 'a'));
    text += 2;
  }
  return handle;
}

TEST(Sharing, DISABLED_OtherProcess) {
  setenv("SIMGPU_NODE", getenv("TEST_NODE"), 1);
  void* memory = nullptr;
  cudaEvent_t event;
  RT_OK(cudaIpcOpenMemHandle(&memory, from_text<cudaIpcMemHandle_t>(getenv("TEST_MEMORY")),
                             cudaIpcMemLazyEnablePeerAccess));
  RT_OK(cudaIpcOpenEventHandle(&event, from_text<cudaIpcEventHandle_t>(getenv("TEST_EVENT"))));
  RT_OK(cudaEventSynchronize(event));
  unsigned char back[64];
  RT_OK(cudaMemcpy(back, memory, sizeof back, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back[63], 21);
  RT_OK(cudaMemset(memory, 22, 64));
  RT_OK(cudaDeviceSynchronize());
  RT_OK(cudaIpcCloseMemHandle(memory));
  RT_OK(cudaEventDestroy(event));
}

TEST(Sharing, MemoryAndEventsWithAnotherProcess) {
  Device memory(64);
  cudaEvent_t event;
  cudaIpcMemHandle_t memory_handle;
  cudaIpcEventHandle_t event_handle;
  RT_OK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
  RT_OK(cudaMemset(memory.get(), 21, 64));
  RT_OK(cudaEventRecord(event, nullptr));
  RT_OK(cudaIpcGetMemHandle(&memory_handle, memory.get()));
  RT_OK(cudaIpcGetEventHandle(&event_handle, event));
  EXPECT_EQ(
      run_again("Sharing.DISABLED_OtherProcess",
                {"TEST_NODE=" + std::string(getenv("SIMGPU_NODE")),
                 "TEST_MEMORY=" + to_text(memory_handle), "TEST_EVENT=" + to_text(event_handle)}),
      0);
  EXPECT_EQ(memory.read(64), Bytes(64, 22));
  RT_OK(cudaEventDestroy(event));
}

TEST(Pools, StreamOrderedMemory) {
  cudaStream_t stream;
  RT_OK(cudaStreamCreate(&stream));
  void* memory = nullptr;
  RT_OK(cudaMallocAsync(&memory, 4096, stream));
  RT_OK(cudaMemsetAsync(memory, 4, 4096, stream));
  Bytes back(4096);
  RT_OK(cudaMemcpyAsync(back.data(), memory, 4096, cudaMemcpyDeviceToHost, stream));
  RT_OK(cudaFreeAsync(memory, stream));
  RT_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(back, Bytes(4096, 4));
  cudaMemPool_t pool;
  RT_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  cuuint64_t threshold = 1 << 20, got = 0;
  RT_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  RT_OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &got));
  EXPECT_EQ(got, threshold);
  RT_OK(cudaMallocFromPoolAsync(&memory, 64, pool, stream));
  RT_OK(cudaFreeAsync(memory, stream));
  cudaMemPoolProps props = {};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, 1};
  cudaMemPool_t own;
  RT_OK(cudaMemPoolCreate(&own, &props));
  RT_OK(cudaMemPoolTrimTo(own, 0));
  RT_OK(cudaMemPoolDestroy(own));
  RT_OK(cudaStreamDestroy(stream));
}

}  // namespace
