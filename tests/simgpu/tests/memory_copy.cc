// Copies and sets: every shape against plain loops on the host, and what waits for what.
#include <random>

#include "memory_support.h"

namespace {

const bool g_alone = (be_alone("256M"), true);

using std::chrono::milliseconds;
using std::chrono::seconds;
using Byte = unsigned char;

class Copy : public DriverTest {
 protected:
  std::vector<Byte> noise(size_t bytes) {
    std::vector<Byte> data(bytes);
    for (Byte& byte : data) {
      byte = static_cast<Byte>(random_());
    }
    return data;
  }
  CUdeviceptr upload(const std::vector<Byte>& data) {
    const CUdeviceptr address = allocate(data.size());
    EXPECT_EQ(cuMemcpyHtoD(address, data.data(), data.size()), CUDA_SUCCESS);
    return address;
  }
  static std::vector<Byte> download(CUdeviceptr address, size_t bytes) {
    std::vector<Byte> data(bytes);
    EXPECT_EQ(cuMemcpyDtoH(data.data(), address, bytes), CUDA_SUCCESS);
    return data;
  }
  CUstream new_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, flags), CUDA_SUCCESS);
    return stream;
  }

  std::mt19937 random_{3};
};

TEST_F(Copy, LinearInAllDirections) {
  for (const size_t bytes : {1ul, 3ul, 4096ul, 65536ul, 65537ul, 3'000'001ul}) {
    const std::vector<Byte> data = noise(bytes);
    const CUdeviceptr a = upload(data), b = allocate(bytes), c = allocate(bytes);
    CU_OK(cuMemcpyDtoD(b, a, bytes));
    CU_OK(cuMemcpy(c, b, bytes));
    ASSERT_EQ(download(c, bytes), data);
    std::vector<Byte> host(bytes), pageable = noise(bytes);
    CU_OK(cuMemcpy(reinterpret_cast<CUdeviceptr>(host.data()), c, bytes));
    ASSERT_EQ(host, data);
    CU_OK(cuMemcpy(c, reinterpret_cast<CUdeviceptr>(pageable.data()), bytes));
    ASSERT_EQ(download(c, bytes), pageable);
    for (const CUdeviceptr address : {a, b, c}) {
      CU_OK(cuMemFree(address));
    }
  }
}

TEST_F(Copy, RefusesWhatIsNotMemoryOfADevice) {
  std::vector<Byte> host(8192);
  const CUdeviceptr a = allocate(4096);
  const CUdeviceptr next = allocate(4096);
  ASSERT_EQ(next, a + 4096);
  EXPECT_EQ(cuMemcpyHtoD(a, host.data(), 4097), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH(host.data(), a + 4000, 97), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH(host.data(), reinterpret_cast<CUdeviceptr>(host.data()), 8),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD(a, nullptr, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8(a, 0, 4097), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32(a + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
  CU_OK(cuMemcpyHtoD(0, nullptr, 0));
  CU_OK(cuMemFree(a));
  EXPECT_EQ(cuMemcpyHtoD(a, host.data(), 1), CUDA_ERROR_INVALID_VALUE);
}

struct Box {
  size_t x, y, z, pitch, height, depth;
  size_t bytes() const { return pitch * height * depth; }
};

TEST_F(Copy, AnyBoxBetweenAnyTwoPlaces) {
  for (int round = 0; round < 150; ++round) {
    const size_t width = random_() % 40 + 1, height = random_() % 8 + 1, depth = random_() % 5 + 1;
    const auto around = [&] {
      Box box = {random_() % 9, random_() % 4, random_() % 3, 0, 0, 0};
      box.pitch = box.x + width + random_() % 20;
      box.height = box.y + height + random_() % 3;
      box.depth = box.z + depth;
      return box;
    };
    const Box from = around(), to = around();
    const std::vector<Byte> source = noise(from.bytes());
    std::vector<Byte> destination = noise(to.bytes()), expected = destination;
    for (size_t z = 0; z < depth; ++z) {
      for (size_t y = 0; y < height; ++y) {
        for (size_t x = 0; x < width; ++x) {
          expected[to.x + x + to.pitch * (to.y + y + to.height * (to.z + z))] =
              source[from.x + x + from.pitch * (from.y + y + from.height * (from.z + z))];
        }
      }
    }
    CUDA_MEMCPY3D copy = {};
    copy.srcXInBytes = from.x;
    copy.srcY = from.y;
    copy.srcZ = from.z;
    copy.srcPitch = from.pitch;
    copy.srcHeight = from.height;
    copy.dstXInBytes = to.x;
    copy.dstY = to.y;
    copy.dstZ = to.z;
    copy.dstPitch = to.pitch;
    copy.dstHeight = to.height;
    copy.WidthInBytes = width;
    copy.Height = height;
    copy.Depth = depth;
    const CUdeviceptr device_source = upload(source), device_destination = upload(destination);
    if (round & 1) {
      copy.srcMemoryType = CU_MEMORYTYPE_HOST;
      copy.srcHost = source.data();
    } else {
      copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
      copy.srcDevice = device_source;
    }
    const bool to_host = round & 2;
    if (to_host) {
      copy.dstMemoryType = CU_MEMORYTYPE_HOST;
      copy.dstHost = destination.data();
    } else {
      copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
      copy.dstDevice = device_destination;
    }
    if (round & 4) {
      CU_OK(cuMemcpy3D(&copy));
    } else {
      CU_OK(cuMemcpy3DAsync(&copy, nullptr));
      CU_OK(cuStreamSynchronize(nullptr));
    }
    if (!to_host) {
      destination = download(device_destination, to.bytes());
    }
    ASSERT_EQ(destination, expected) << "round " << round;
    CU_OK(cuMemFree(device_source));
    CU_OK(cuMemFree(device_destination));
  }
}

TEST_F(Copy, RowsNeedTheirPitch) {
  std::vector<Byte> host(1000);
  const CUdeviceptr a = allocate(1000);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host.data();
  copy.srcPitch = 10;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = a;
  copy.dstPitch = 9;
  copy.WidthInBytes = 10;
  copy.Height = 3;
  EXPECT_EQ(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.dstPitch = 495;
  EXPECT_EQ(cuMemcpy2D(&copy), CUDA_SUCCESS);  // exactly to the end: 2 * 495 + 10
  copy.dstPitch = 496;
  EXPECT_EQ(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Copy, ArraysOfAllShapes) {
  for (int round = 0; round < 60; ++round) {
    CUDA_ARRAY3D_DESCRIPTOR shape = {};
    shape.Width = random_() % 20 + 1;
    shape.Height = round % 3 ? random_() % 10 + 1 : 0;
    shape.Depth = round % 3 == 2 ? random_() % 6 + 1 : 0;
    shape.Format = CU_AD_FORMAT_FLOAT;
    shape.NumChannels = 2;
    CUarray array;
    CU_OK(cuArray3DCreate(&array, &shape));
    CUDA_MEMCPY3D copy = {};
    copy.WidthInBytes = shape.Width * 8;
    copy.Height = std::max<size_t>(shape.Height, 1);
    copy.Depth = std::max<size_t>(shape.Depth, 1);
    const std::vector<Byte> source = noise(copy.WidthInBytes * copy.Height * copy.Depth);
    std::vector<Byte> back(source.size());
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = source.data();
    copy.srcPitch = copy.WidthInBytes;
    copy.srcHeight = copy.Height;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    CU_OK(cuMemcpy3D(&copy));
    CUDA_MEMCPY3D out = copy;
    out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    out.srcArray = array;
    out.dstMemoryType = CU_MEMORYTYPE_HOST;
    out.dstHost = back.data();
    out.dstPitch = copy.WidthInBytes;
    out.dstHeight = copy.Height;
    CU_OK(cuMemcpy3D(&out));
    ASSERT_EQ(back, source);
    out.WidthInBytes += 1;
    EXPECT_EQ(cuMemcpy3D(&out), CUDA_ERROR_INVALID_VALUE);
    CUDA_ARRAY3D_DESCRIPTOR seen;
    CU_OK(cuArray3DGetDescriptor(&seen, array));
    EXPECT_EQ(seen.Height, shape.Height);
    CU_OK(cuArrayDestroy(array));
    EXPECT_EQ(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
  }
}

TEST_F(Copy, MipmapLevelsAreArraysOfTheirOwn) {
  CUDA_ARRAY3D_DESCRIPTOR shape = {16, 8, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0};
  CUmipmappedArray mipmap;
  CU_OK(cuMipmappedArrayCreate(&mipmap, &shape, 99));
  CUarray level;
  CU_OK(cuMipmappedArrayGetLevel(&level, mipmap, 4));
  EXPECT_EQ(cuMipmappedArrayGetLevel(&level, mipmap, 5), CUDA_ERROR_INVALID_VALUE);
  std::vector<CUarray> levels(5);
  for (unsigned i = 0; i < 5; ++i) {
    CU_OK(cuMipmappedArrayGetLevel(&levels[i], mipmap, i));
    const std::vector<Byte> row(16u * 4 >> i, static_cast<Byte>(i));
    CU_OK(cuMemcpyHtoA(levels[i], 0, row.data(), row.size()));
  }
  for (unsigned i = 0; i < 5; ++i) {
    std::vector<Byte> row(16u * 4 >> i);
    CU_OK(cuMemcpyAtoH(row.data(), levels[i], 0, row.size()));
    EXPECT_EQ(row, std::vector<Byte>(row.size(), static_cast<Byte>(i)));
  }
  CU_OK(cuMipmappedArrayDestroy(mipmap));
}

TEST_F(Copy, SetsOfAllWidths) {
  const CUdeviceptr a = allocate(1 << 16);
  for (int round = 0; round < 100; ++round) {
    const unsigned element = 1u << (random_() % 3), value = static_cast<unsigned>(random_());
    const size_t width = random_() % 50 + 1, height = random_() % 10 + 1;
    const size_t pitch = (width + random_() % 7) * element, start = random_() % 64 * element;
    std::vector<Byte> expected = noise(1 << 16);
    CU_OK(cuMemcpyHtoD(a, expected.data(), expected.size()));
    for (size_t y = 0; y < height; ++y) {
      for (size_t i = 0; i < width * element; ++i) {
        expected[start + y * pitch + i] = static_cast<Byte>(value >> (i % element * 8));
      }
    }
    const CUdeviceptr to = a + start;
    switch (element) {
      case 1:
        CU_OK(cuMemsetD2D8(to, pitch, static_cast<Byte>(value), width, height));
        break;
      case 2:
        CU_OK(cuMemsetD2D16(to, pitch, static_cast<unsigned short>(value), width, height));
        break;
      default:
        CU_OK(cuMemsetD2D32(to, pitch, value, width, height));
    }
    ASSERT_EQ(download(a, 1 << 16), expected) << "round " << round;
  }
}

TEST_F(Copy, PeersAndBatches) {
  CUcontext other;
  CU_OK(cuDevicePrimaryCtxRetain(&other, 1));
  CU_OK(cuCtxPushCurrent(other));
  const CUdeviceptr there = allocate(1 << 20);
  CU_OK(cuCtxPopCurrent(nullptr));
  const std::vector<Byte> data = noise(1 << 20);
  const CUdeviceptr here = upload(data), back = allocate(1 << 20);
  CU_OK(cuMemcpyPeer(there, other, here, context_, 1 << 20));
  CU_OK(cuMemcpyPeer(back, context_, there, other, 1 << 20));
  EXPECT_EQ(download(back, 1 << 20), data);
  EXPECT_EQ(cuMemcpyPeer(back, nullptr, there, other, 1), CUDA_ERROR_INVALID_CONTEXT);

  CU_OK(cuMemsetD8(back, 0, 1 << 20));
  CU_OK(cuCtxSynchronize());
  CUdeviceptr to[] = {back, back + 512, back + 4096};
  CUdeviceptr from[] = {here, here + 512, reinterpret_cast<CUdeviceptr>(data.data()) + 4096};
  size_t sizes[] = {512, 3584, (1 << 20) - 4096};
  CUmemcpyAttributes attributes[2] = {};
  attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  size_t first[] = {0, 2};
  const CUstream stream = new_stream();
  EXPECT_EQ(cuMemcpyBatchAsync(to, from, sizes, 3, attributes, first, 2, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  CU_OK(cuMemcpyBatchAsync(to, from, sizes, 3, attributes, first, 2, stream));
  CU_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(download(back, 1 << 20), data);
  CU_OK(cuDevicePrimaryCtxRelease(1));
}

// --- what waits

TEST_F(Copy, SmallPageableSourceIsReadAtTheCall) {
  const CUstream stream = new_stream();
  const CUdeviceptr a = allocate(64 << 10);
  std::vector<Byte> host(64 << 10, 1);
  Blocker blocker(stream);
  CU_OK(cuMemcpyHtoDAsync(a, host.data(), host.size(), stream));  // returns: staged
  std::fill(host.begin(), host.end(), 2);
  blocker.release();
  CU_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(download(a, host.size()), std::vector<Byte>(host.size(), 1));
}

TEST_F(Copy, LargePageableSourceWaitsForItsTurn) {
  const CUstream stream = new_stream();
  const CUdeviceptr a = allocate(1 << 20);
  std::vector<Byte> host(1 << 20, 5);
  Blocker blocker(stream);
  Watched copy(context_, [&] { return cuMemcpyHtoDAsync(a, host.data(), host.size(), stream); });
  EXPECT_FALSE(copy.returns_within(milliseconds(50)));
  blocker.release();
  EXPECT_TRUE(copy.returns_within(seconds(10)));
  EXPECT_EQ(copy.result(), CUDA_SUCCESS);
}

TEST_F(Copy, PageableDestinationWaitsPinnedDoesNot) {
  const CUstream stream = new_stream();
  const CUdeviceptr a = allocate(4096);
  CU_OK(cuMemsetD8(a, 9, 4096));
  CU_OK(cuCtxSynchronize());  // the set returned at once, and the other stream does not wait for it
  std::vector<Byte> pageable(4096);
  void* pinned = nullptr;
  CU_OK(cuMemAllocHost(&pinned, 4096));
  Blocker blocker(stream);
  CU_OK(cuMemcpyDtoHAsync(pinned, a, 4096, stream));
  EXPECT_EQ(static_cast<Byte*>(pinned)[0], 0);
  Watched copy(context_, [&] { return cuMemcpyDtoHAsync(pageable.data(), a, 4096, stream); });
  EXPECT_FALSE(copy.returns_within(milliseconds(50)));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  blocker.release();
  EXPECT_TRUE(copy.returns_within(seconds(10)));
  EXPECT_EQ(pageable[4095], 9);
  EXPECT_EQ(static_cast<Byte*>(pinned)[4095], 9);
}

TEST_F(Copy, RegisteredMemoryIsPinned) {
  const CUstream stream = new_stream();
  const CUdeviceptr a = allocate(1 << 20);
  std::vector<Byte> host(1 << 20, 1);
  CU_OK(cuMemHostRegister(host.data(), host.size(), 0));
  EXPECT_EQ(cuMemHostRegister(host.data() + 100, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  {
    Blocker blocker(stream);
    CU_OK(cuMemcpyHtoDAsync(a, host.data(), host.size(), stream));  // returns although it is large
    std::fill(host.begin(), host.end(), 7);
  }
  CU_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(download(a, host.size()), std::vector<Byte>(host.size(), 7));
  EXPECT_EQ(cuMemHostUnregister(host.data() + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CU_OK(cuMemHostUnregister(host.data()));
  EXPECT_EQ(cuMemHostUnregister(host.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuMemHostRegister(reinterpret_cast<void*>(4096), 4096, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Copy, SynchronousCopiesWaitForBlockingStreams) {
  const CUstream blocking = new_stream(CU_STREAM_DEFAULT);
  const CUdeviceptr a = allocate(4096), b = allocate(4096);
  std::vector<Byte> host(4096);
  Blocker blocker(blocking);
  CU_OK(cuMemcpyDtoD(b, a, 4096));                   // returns at once
  CU_OK(cuMemsetD8(a, 1, 4096));                     // likewise
  CU_OK(cuMemcpyHtoD(a, host.data(), host.size()));  // staged
  Watched copy(context_, [&] { return cuMemcpyDtoH(host.data(), a, 4096); });
  EXPECT_FALSE(copy.returns_within(milliseconds(50)));
  blocker.release();
  EXPECT_TRUE(copy.returns_within(seconds(10)));
}

TEST_F(Copy, SyncMemopsMakesDeviceCopiesWait) {
  const CUstream blocking = new_stream(CU_STREAM_DEFAULT);
  const CUdeviceptr a = allocate(4096), b = allocate(4096);
  const unsigned on = 1;
  CU_OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
  Blocker blocker(blocking);
  Watched copy(context_, [&] { return cuMemcpyDtoD(b, a, 4096); });
  EXPECT_FALSE(copy.returns_within(milliseconds(50)));
  blocker.release();
  EXPECT_TRUE(copy.returns_within(seconds(10)));
}

TEST_F(Copy, PerThreadVariantsUseTheThreadsStream) {
  const CUstream blocking = new_stream(CU_STREAM_DEFAULT);
  const CUdeviceptr a = allocate(4096);
  std::vector<Byte> host(4096);
  void* function = nullptr;
  CUdriverProcAddressQueryResult status;
  CU_OK(cuGetProcAddress("cuMemcpyDtoH", &function, 7000,
                         CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
  const auto copy = reinterpret_cast<CUresult (*)(void*, CUdeviceptr, size_t)>(function);
  Blocker blocker(blocking);
  CU_OK(copy(host.data(), a, 4096));  // does not wait for the other stream
  EXPECT_FALSE(blocker.passed());
}

// --- memory that is gone when the work runs

TEST_F(Copy, UseAfterFreeIsAnIllegalAddress) {
  const CUstream stream = new_stream();
  CUcontext other;
  CU_OK(cuDevicePrimaryCtxRetain(&other, 1));
  CU_OK(cuCtxPushCurrent(other));
  const CUdeviceptr there = allocate(4096);
  CU_OK(cuCtxPopCurrent(nullptr));
  const CUdeviceptr here = allocate(4096);
  {
    Blocker blocker(stream);
    CU_OK(cuMemcpyDtoDAsync(here, there, 4096, stream));
    // The other context's memory goes with it; nobody waits for this context's streams.
    CU_OK(cuDevicePrimaryCtxReset(1));
  }
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuMemFree(here), CUDA_ERROR_ILLEGAL_ADDRESS);  // the error stays
}

// --- pointer attributes

TEST_F(Copy, PointersTellWhatTheyAre) {
  const CUdeviceptr a = allocate(5000);
  CUmemorytype type;
  CU_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a + 17));
  EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
  CUcontext owner;
  CU_OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, a));
  EXPECT_EQ(owner, context_);
  CUdeviceptr start = 0;
  CU_OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, a + 4999));
  EXPECT_EQ(start, a);
  EXPECT_EQ(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, a + 5000),
            CUDA_ERROR_INVALID_VALUE);
  void* host = nullptr;
  EXPECT_EQ(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, a),
            CUDA_ERROR_INVALID_VALUE);

  CUdeviceptr managed;
  CU_OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
  unsigned is_managed = 0;
  CU_OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
  EXPECT_EQ(is_managed, 1u);
  CU_OK(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, managed + 8));
  EXPECT_EQ(host, reinterpret_cast<void*>(managed + 8));
  CU_OK(cuMemFree(managed));

  int local = 0, ordinal = 0;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* answers[] = {&type, &ordinal, &host};
  CU_OK(cuPointerGetAttributes(3, asked, answers, reinterpret_cast<CUdeviceptr>(&local)));
  EXPECT_EQ(type, 0);
  EXPECT_EQ(ordinal, CU_DEVICE_INVALID);
  EXPECT_EQ(host, nullptr);
}

TEST_F(Copy, ManagedMemoryRemembersAdvice) {
  CUdeviceptr a;
  CU_OK(cuMemAllocManaged(&a, 64 << 10, CU_MEM_ATTACH_GLOBAL));
  const CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CU_OK(cuMemAdvise(a, 8192, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
  CU_OK(cuMemAdvise(a, 64 << 10, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
  CU_OK(cuMemPrefetchAsync(a, 64 << 10, device, 0, nullptr));
  int value = 0;
  CU_OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, a, 8192));
  EXPECT_EQ(value, 1);
  CU_OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, a, 8193));
  EXPECT_EQ(value, CU_DEVICE_INVALID);
  CU_OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, a, 64 << 10));
  EXPECT_EQ(value, 1);
  CU_OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, a, 4096));
  EXPECT_EQ(value, 1);
  EXPECT_EQ(cuMemAdvise(a, (64 << 10) + 1, CU_MEM_ADVISE_SET_READ_MOSTLY, device),
            CUDA_ERROR_INVALID_VALUE);
  CU_OK(cuMemFree(a));
}

}  // namespace
