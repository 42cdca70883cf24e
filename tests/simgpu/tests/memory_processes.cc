// test: labels=multiprocess
// Memory, events and physical allocations shared by processes, and what neighbours leave of a
// device.
#include <fcntl.h>
#include <signal.h>

#include <cstring>
#include <fstream>

#include "memory_support.h"

namespace {

const bool g_alone = (be_alone(), true);

constexpr size_t kTotal = 64 << 20;
constexpr size_t kMapped = 4 << 20;
using std::chrono::milliseconds;
using Byte = unsigned char;

using Processes = DriverTest;

#define CHILD_OK(call)                                                   \
  if (const CUresult result = (call); result != CUDA_SUCCESS) {          \
    fprintf(stderr, "child: %s: %d\n", #call, static_cast<int>(result)); \
    _exit(10);                                                           \
  }

void start_child() {
  CUcontext context;
  CHILD_OK(cuInit(0));
  CHILD_OK(cuDevicePrimaryCtxRetain(&context, 0));
  CHILD_OK(cuCtxSetCurrent(context));
}

// Allocates as many bytes as it is told, says the result, and waits to be told to end.
void neighbour() {
  start_child();
  size_t bytes = 0;
  hear(&bytes, sizeof bytes);
  CUdeviceptr address = 0;
  const CUresult result = cuMemAlloc(&address, bytes);
  tell(&result, sizeof result);
  hear(&bytes, sizeof bytes);
}

TEST_F(Processes, NeighboursShareTheDevice) {
  Child child("neighbour");
  const size_t theirs = 40 << 20;
  child.send(&theirs, sizeof theirs);
  CUresult result;
  child.receive(&result, sizeof result);
  ASSERT_EQ(result, CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), kTotal - theirs);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, 25 << 20), CUDA_ERROR_OUT_OF_MEMORY);
  CU_OK(cuMemAlloc(&address, 24 << 20));
  EXPECT_EQ(free_bytes(), 0u);
  child.send(&theirs, sizeof theirs);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(free_bytes(), kTotal - (24 << 20));
}

TEST_F(Processes, KilledNeighboursMemoryIsReclaimed) {
  Child child("neighbour");
  const size_t theirs = 60 << 20;
  child.send(&theirs, sizeof theirs);
  CUresult result;
  child.receive(&result, sizeof result);
  ASSERT_EQ(result, CUDA_SUCCESS);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, 32 << 20), CUDA_ERROR_OUT_OF_MEMORY);
  kill(child.pid(), SIGKILL);
  child.wait();
  CU_OK(cuMemAlloc(&address, 32 << 20));
  EXPECT_EQ(free_bytes(), kTotal - (32 << 20));
}

TEST_F(Processes, TheTableHasNoNameThatOutlivesAProcess) {
  Child child("neighbour");
  const size_t bytes = 1 << 20;
  child.send(&bytes, sizeof bytes);
  CUresult result;
  child.receive(&result, sizeof result);
  const std::string mark = "-" + std::to_string(child.pid()) + "-";
  const auto named = [&] {
    std::ifstream names("/proc/net/unix");
    const std::string all((std::istreambuf_iterator<char>(names)), {});
    return all.find(mark) != std::string::npos;
  };
  EXPECT_TRUE(named());
  kill(child.pid(), SIGKILL);
  child.wait();
  EXPECT_FALSE(named());
}

// --- IPC memory

void importer() {
  start_child();
  CUipcMemHandle handle;
  hear(&handle, sizeof handle);
  CUdeviceptr address = 0, again = 0;
  CHILD_OK(cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  CHILD_OK(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  std::vector<Byte> seen(10'000);
  CHILD_OK(cuMemcpyDtoH(seen.data(), address, seen.size()));
  for (Byte& byte : seen) {
    ++byte;
  }
  CHILD_OK(cuMemcpyHtoD(address, seen.data(), seen.size()));
  CHILD_OK(cuCtxSynchronize());
  const CUresult free = cuMemFree(address);
  CHILD_OK(cuIpcCloseMemHandle(address));
  CHILD_OK(cuMemcpyDtoH(seen.data(), again, 1));  // closed once of twice
  CHILD_OK(cuIpcCloseMemHandle(address));
  const CUresult results[] = {address == again ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN, free,
                              cuIpcCloseMemHandle(address), cuMemcpyDtoH(seen.data(), address, 1)};
  tell(results, sizeof results);
}

TEST_F(Processes, IpcMemoryIsTheSameMemory) {
  allocate(3 * 512);  // so that the allocation does not begin on a page
  const CUdeviceptr a = allocate(10'000);
  std::vector<Byte> data(10'000);
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<Byte>(i * 7);
  }
  CU_OK(cuMemcpyHtoD(a, data.data(), data.size()));
  CU_OK(cuCtxSynchronize());
  CUipcMemHandle handle;
  CU_OK(cuIpcGetMemHandle(&handle, a + 512));  // names the whole allocation
  CUdeviceptr here;
  EXPECT_EQ(cuIpcOpenMemHandle(&here, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_ERROR_INVALID_CONTEXT);
  Child child("importer");
  child.send(&handle, sizeof handle);
  CUresult results[4];
  child.receive(results, sizeof results);
  EXPECT_EQ(results[0], CUDA_SUCCESS);
  EXPECT_EQ(results[1], CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(results[2], CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(results[3], CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(child.wait(), 0);
  std::vector<Byte> seen(data.size());
  CU_OK(cuMemcpyDtoH(seen.data(), a, seen.size()));
  for (Byte& byte : data) {
    ++byte;
  }
  EXPECT_EQ(seen, data);
}

TEST_F(Processes, OnlyPlainDeviceMemoryHasIpcHandles) {
  CUipcMemHandle handle;
  void* pinned;
  CU_OK(cuMemAllocHost(&pinned, 4096));
  EXPECT_EQ(cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(pinned)),
            CUDA_ERROR_INVALID_VALUE);
  memset(&handle, 0, sizeof handle);
  CUdeviceptr a;
  EXPECT_EQ(cuIpcOpenMemHandle(&a, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_ERROR_INVALID_HANDLE);
}

// --- IPC events

// Makes its stream wait for the event, says so, says when the stream got past it; records the event
// itself later.
void waiter() {
  start_child();
  CUipcEventHandle handle;
  hear(&handle, sizeof handle);
  CUevent event;
  CHILD_OK(cuIpcOpenEventHandle(&event, handle));
  CUstream stream;
  CHILD_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUresult result = cuEventQuery(event);
  tell(&result, sizeof result);
  CHILD_OK(cuStreamWaitEvent(stream, event, 0));
  result = cuStreamQuery(stream);
  tell(&result, sizeof result);
  result = cuStreamSynchronize(stream);
  tell(&result, sizeof result);
  hear(&result, sizeof result);
  {
    Blocker blocker(stream);
    CHILD_OK(cuEventRecord(event, stream));
    tell(&result, sizeof result);
    hear(&result, sizeof result);
  }
  CHILD_OK(cuStreamSynchronize(stream));
  hear(&result, sizeof result);
}

TEST_F(Processes, IpcEventsOrderStreamsOfTwoProcesses) {
  CUevent event;
  CU_OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  CUipcEventHandle handle;
  CU_OK(cuIpcGetEventHandle(&handle, event));
  CUstream stream;
  CU_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Child child("waiter");
  CUresult result;
  {
    Blocker blocker(stream);
    CU_OK(cuEventRecord(event, stream));
    child.send(&handle, sizeof handle);
    child.receive(&result, sizeof result);
    EXPECT_EQ(result, CUDA_ERROR_NOT_READY);
    child.receive(&result, sizeof result);
    EXPECT_EQ(result, CUDA_ERROR_NOT_READY);
  }
  child.receive(&result, sizeof result);
  EXPECT_EQ(result, CUDA_SUCCESS);
  CU_OK(cuEventSynchronize(event));
  // Now the child records.
  child.send(&result, sizeof result);
  child.receive(&result, sizeof result);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  Watched wait(context_, [&] { return cuEventSynchronize(event); });
  EXPECT_FALSE(wait.returns_within(milliseconds(50)));
  child.send(&result, sizeof result);
  EXPECT_TRUE(wait.returns_within(milliseconds(10'000)));
  child.send(&result, sizeof result);
  EXPECT_EQ(child.wait(), 0);
}

// --- physical memory and pools by file descriptor

// Descriptors travel over Unix sockets; a child may as well open its parent's.
int parents_file(int file) {
  const std::string path = "/proc/" + std::to_string(getppid()) + "/fd/" + std::to_string(file);
  return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

void mapper() {
  start_child();
  int theirs = -1;
  hear(&theirs, sizeof theirs);
  const int file = parents_file(theirs);
  CUmemGenericAllocationHandle handle;
  CHILD_OK(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(intptr_t{file}),
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(file);
  CUdeviceptr address;
  CHILD_OK(cuMemAddressReserve(&address, kMapped, 0, 0, 0));
  CHILD_OK(cuMemMap(address, kMapped, 0, handle, 0));
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHILD_OK(cuMemSetAccess(address, kMapped, &access, 1));
  CHILD_OK(cuMemsetD32(address, 0x12345678, kMapped / 4));
  CHILD_OK(cuCtxSynchronize());
  tell(&theirs, sizeof theirs);
}

TEST_F(Processes, PhysicalMemoryIsSharedByFileDescriptor) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle;
  CU_OK(cuMemCreate(&handle, kMapped, &properties, 0));
  CUdeviceptr address;
  CU_OK(cuMemAddressReserve(&address, kMapped, 0, 0, 0));
  CU_OK(cuMemMap(address, kMapped, 0, handle, 0));
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CU_OK(cuMemSetAccess(address, kMapped, &access, 1));
  int file = -1;
  CU_OK(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  Child child("mapper");
  child.send(&file, sizeof file);
  child.receive(&file, sizeof file);
  unsigned last = 0;
  CU_OK(cuMemcpyDtoH(&last, address + kMapped - 4, 4));
  EXPECT_EQ(last, 0x12345678u);
  close(file);
  CU_OK(cuMemUnmap(address, kMapped));
  CU_OK(cuMemRelease(handle));
  CU_OK(cuMemAddressFree(address, kMapped));
  EXPECT_EQ(free_bytes(), kTotal);
}

void pool_importer() {
  start_child();
  int theirs = -1;
  CUmemPoolPtrExportData data;
  hear(&theirs, sizeof theirs);
  hear(&data, sizeof data);
  const int file = parents_file(theirs);
  CUmemoryPool pool;
  CHILD_OK(cuMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(intptr_t{file}),
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUdeviceptr address = 0, none = 0;
  CHILD_OK(cuMemPoolImportPointer(&address, pool, &data));
  Byte value = 0;
  CHILD_OK(cuMemcpyDtoH(&value, address + 999, 1));
  CHILD_OK(cuMemsetD8(address, 77, 1000));
  CHILD_OK(cuMemFreeAsync(address, nullptr));
  const CUresult refused = cuMemAllocFromPoolAsync(&none, 10, pool, nullptr);
  CHILD_OK(cuCtxSynchronize());
  tell(&value, 1);
  tell(&refused, sizeof refused);
}

TEST_F(Processes, PoolPointersAreShared) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemoryPool pool;
  CU_OK(cuMemPoolCreate(&pool, &properties));
  CUdeviceptr first, address;
  CU_OK(cuMemAllocFromPoolAsync(&first, 700, pool, nullptr));
  CU_OK(cuMemAllocFromPoolAsync(&address, 1000, pool, nullptr));
  CU_OK(cuMemsetD8(address, 55, 1000));
  CU_OK(cuCtxSynchronize());
  int file = -1;
  CU_OK(cuMemPoolExportToShareableHandle(&file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUmemPoolPtrExportData data;
  CU_OK(cuMemPoolExportPointer(&data, address));
  Child child("pool_importer");
  child.send(&file, sizeof file);
  child.send(&data, sizeof data);
  Byte value = 0;
  CUresult refused;
  child.receive(&value, 1);
  child.receive(&refused, sizeof refused);
  EXPECT_EQ(value, 55);
  EXPECT_EQ(refused, CUDA_ERROR_INVALID_VALUE);
  CU_OK(cuMemcpyDtoH(&value, address, 1));
  EXPECT_EQ(value, 77);
  close(file);
  CU_OK(cuMemFreeAsync(address, nullptr));
  CU_OK(cuMemFreeAsync(first, nullptr));
  CU_OK(cuMemPoolDestroy(pool));
}

// --- settings

// Says what is free in a process with SIMGPU_CONTEXT_MB=5, and how long 20 MB take at
// SIMGPU_COPY_GBPS=1.
void modelled() {
  setenv("SIMGPU_CONTEXT_MB", "5", 1);
  setenv("SIMGPU_COPY_GBPS", "1", 1);
  start_child();
  size_t free = 0, total = 0;
  CHILD_OK(cuMemGetInfo(&free, &total));
  tell(&free, sizeof free);
  CUevent start, end;
  CHILD_OK(cuEventCreate(&start, 0));
  CHILD_OK(cuEventCreate(&end, 0));
  CUdeviceptr a, b;
  CHILD_OK(cuMemAlloc(&a, 20'000'000));
  CHILD_OK(cuMemAlloc(&b, 20'000'000));
  CHILD_OK(cuEventRecord(start, nullptr));
  CHILD_OK(cuMemcpyDtoDAsync(b, a, 20'000'000, nullptr));
  CHILD_OK(cuEventRecord(end, nullptr));
  CHILD_OK(cuEventSynchronize(end));
  float ms = 0;
  CHILD_OK(cuEventElapsedTime(&ms, start, end));
  tell(&ms, sizeof ms);
}

TEST_F(Processes, ContextsAndTransfersCostWhatIsSet) {
  Child child("modelled");
  size_t free = 0;
  float ms = 0;
  child.receive(&free, sizeof free);
  child.receive(&ms, sizeof ms);
  EXPECT_EQ(free, kTotal - (5 << 20));
  EXPECT_GE(ms, 20.f);
  EXPECT_EQ(child.wait(), 0);
}

constexpr struct {
  const char* name;
  void (*run)();
} kRoles[] = {{"neighbour", neighbour}, {"importer", importer},           {"waiter", waiter},
              {"mapper", mapper},       {"pool_importer", pool_importer}, {"modelled", modelled}};

}  // namespace

int main(int argc, char** argv) {
  if (const char* asked = getenv("TEST_ROLE")) {
    for (const auto& role : kRoles) {
      if (strcmp(role.name, asked) == 0) {
        role.run();
        return 0;
      }
    }
    return 2;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
