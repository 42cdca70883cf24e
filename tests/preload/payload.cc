// TRAINTRACE_PAYLOAD: the small numbers that a job fetches from its GPU, and hashes of what it
// sends.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using namespace preload;
namespace format = traintrace::format;
using Lines = std::vector<std::string>;

RawTrace trace_of(const std::string& role, const char* level = "scalars") {
  const Folder folder;
  Program program = self(role, {});
  program.environment = {{"TRAINTRACE_DIR", folder.path()}, {"TRAINTRACE_PAYLOAD", level}};
  const Outcome outcome = run(program);
  EXPECT_TRUE(outcome.exited_with(0) || outcome.killed_by(SIGKILL)) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  const std::vector<std::string> paths = folder.traces();
  if (paths.size() != 1) {
    ADD_FAILURE() << paths.size() << " traces";
    return {};
  }
  RawTrace trace = read_raw(paths.front());
  EXPECT_EQ(trace.problems, Lines());
  return trace;
}

// "BYTES:VALUE", in hex, of each in the order of their threads' records.
Lines scalars_of(const RawTrace& trace) {
  Lines scalars;
  for (const RawRecord& record : trace.of("scalarRead", format::kMoment)) {
    char text[64];
    snprintf(text, sizeof text, "%llu:%llx",
             static_cast<unsigned long long>(trace.value(record, "bytes")),
             static_cast<unsigned long long>(trace.value(record, "value")));
    scalars.emplace_back(text);
  }
  return scalars;
}

// Device memory that holds a number.
template <class T>
struct OnDevice {
  explicit OnDevice(T value) {
    cudaMalloc(&memory, 4096);
    cudaMemcpy(memory, &value, sizeof value, cudaMemcpyHostToDevice);
    cudaDeviceSynchronize();  // a non-blocking stream does not wait for it
  }
  void* memory = nullptr;
};

ROLE(items) {
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  const OnDevice<float> loss(0.5F);
  const OnDevice<uint64_t> steps(0x0123456789abcdef);
  float loss_here = 0;
  uint64_t steps_here = 0;
  uint8_t flag = 0;
  uint16_t half = 0;
  cudaMemcpyAsync(&loss_here, loss.memory, 4, cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  cudaMemcpy(&steps_here, steps.memory, 8, cudaMemcpyDeviceToHost);
  cuMemcpyDtoH(&half, reinterpret_cast<CUdeviceptr>(steps.memory), 2);
  cuMemcpyDtoHAsync(&flag, reinterpret_cast<CUdeviceptr>(steps.memory), 1, nullptr);
  cuStreamSynchronize(nullptr);
  cudaMemcpyAsync(&loss_here, loss.memory, 4, cudaMemcpyDeviceToHost, stream);
  cudaDeviceSynchronize();
  return loss_here == 0.5F && steps_here == 0x0123456789abcdef && half == 0xcdef && flag == 0xef
             ? 0
             : 1;
}

const Lines kItems = {"4:3f000000", "8:123456789abcdef", "2:cdef", "1:ef", "4:3f000000"};

TEST(Scalars, AreReadWhenTheJobHasThem) {
  const RawTrace trace = trace_of("items");
  EXPECT_EQ(scalars_of(trace), kItems);
  EXPECT_EQ(trace.facts.at("setting.TRAINTRACE_PAYLOAD"), "scalars");
  for (const RawRecord& record : trace.of("scalarRead", format::kMoment)) {
    EXPECT_NE(record.stack, 0u) << "of the copy";
  }
}

TEST(Scalars, AreNotReadUnlessAskedFor) {
  EXPECT_EQ(scalars_of(trace_of("items", "off")), Lines());
}

// Several copies and one synchronisation, more than are remembered, of which the first are read.
ROLE(many) {
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  const OnDevice<uint64_t> value(0x0807060504030201);
  uint8_t here[10] = {};
  for (int i = 0; i < 10; ++i) {
    cudaMemcpyAsync(here + i, static_cast<char*>(value.memory) + i % 8, 1, cudaMemcpyDeviceToHost,
                    stream);
  }
  cudaStreamSynchronize(stream);
  return 0;
}

TEST(Scalars, OfOneSynchronisationMayBeSeveral) {
  EXPECT_EQ(scalars_of(trace_of("many")),
            (Lines{"1:1", "1:2", "1:3", "1:4", "1:5", "1:6", "1:7", "1:8"}));
}

// What the thread does not wait for at once may be overwritten by then.
ROLE(unwaited) {
  cudaStream_t stream = nullptr;
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  cudaStreamCreate(&stream);
  cudaStreamCreate(&other);
  cudaEventCreate(&event);
  const OnDevice<float> loss(0.5F);
  float here[16] = {};
  const auto fetch = [&] { cudaMemcpyAsync(here, loss.memory, 4, cudaMemcpyDeviceToHost, stream); };
  fetch();
  cudaStreamSynchronize(other);  // waits for another stream
  cudaStreamSynchronize(stream);
  fetch();
  cudaMemset(loss.memory, 0, 4);  // something else between
  cudaStreamSynchronize(stream);
  fetch();
  cudaEventRecord(event, stream);
  cudaEventSynchronize(event);
  fetch();                                                                 // never
  cudaMemcpyAsync(here, loss.memory, 16, cudaMemcpyDeviceToHost, stream);  // too large
  cudaStreamSynchronize(stream);
  cudaMemcpyAsync(loss.memory, here, 4, cudaMemcpyHostToDevice, stream);  // the other way
  cudaStreamSynchronize(stream);
  cudaMemcpyAsync(loss.memory, static_cast<char*>(loss.memory) + 64, 4, cudaMemcpyDeviceToDevice,
                  stream);
  cudaStreamSynchronize(stream);
  return 0;
}

TEST(Scalars, ThatNobodyWaitsForAreNotRead) {
  EXPECT_EQ(scalars_of(trace_of("unwaited")), Lines());
}

// A copy that is captured is not made; its synchronisation is an error.
ROLE(captured) {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaStreamCreate(&stream);
  const OnDevice<float> loss(0.5F);
  float* here = nullptr;
  cudaMallocHost(reinterpret_cast<void**>(&here), 64);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  cudaMemcpyAsync(here, loss.memory, 4, cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  cudaStreamEndCapture(stream, &graph);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  cudaMemcpyAsync(here, loss.memory, 4, cudaMemcpyDeviceToHost, stream);
  cudaStreamEndCapture(stream, &graph);
  cudaStreamSynchronize(stream);
  return 0;
}

TEST(Scalars, AreNotReadWhileCapturing) {
  EXPECT_EQ(scalars_of(trace_of("captured")), Lines());
}

// The memory is gone when the synchronisation returns.
ROLE(unmapped) {
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  const OnDevice<float> loss(0.5F);
  for (int i = 0; i < 2; ++i) {
    void* const page =
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cudaMemcpyAsync(page, loss.memory, 4, cudaMemcpyDeviceToHost, stream);
    usleep(100'000);  // the copy is done
    if (i == 0) {
      munmap(page, 4096);
    } else {
      mprotect(page, 4096, PROT_NONE);
    }
    cudaStreamSynchronize(stream);
  }
  errno = 42;
  float here = 0;
  cudaMemcpy(&here, loss.memory, 4, cudaMemcpyDeviceToHost);
  return errno == 42 && here == 0.5F ? 0 : 1;
}

TEST(Scalars, OfMemoryThatIsGoneAreNotRead) {
  EXPECT_EQ(scalars_of(trace_of("unmapped")), Lines{"4:3f000000"});
}

ROLE(threads) {
  std::vector<std::thread> all;
  all.reserve(8);
  for (uint32_t i = 0; i < 8; ++i) {
    all.emplace_back([i] {
      cudaStream_t stream = nullptr;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      const OnDevice<uint32_t> mine(i);
      for (int step = 0; step < 200; ++step) {
        uint32_t here = 99;
        cudaMemcpyAsync(&here, mine.memory, 4, cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
      }
    });
  }
  for (std::thread& thread : all) {
    thread.join();
  }
  return 0;
}

TEST(Scalars, OfThreadsAreTheirOwn) {
  const RawTrace trace = trace_of("threads");
  std::map<uint32_t, std::map<uint64_t, int>> seen;
  for (const RawRecord& record : trace.of("scalarRead", format::kMoment)) {
    ++seen[record.thread][trace.value(record, "value")];
  }
  EXPECT_EQ(seen.size(), 8u);
  for (const auto& [thread, values] : seen) {
    EXPECT_EQ(values.size(), 1u) << "one thread has one number";
    EXPECT_EQ(values.begin()->second, 200);
  }
}

// The child has fetched nothing: what its parent's thread waits for is not its own.
ROLE(forks) {
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  const OnDevice<float> loss(0.5F);
  float here = 0;
  cudaMemcpyAsync(&here, loss.memory, 4, cudaMemcpyDeviceToHost, stream);
  const pid_t child = fork();
  if (child == 0) {
    cudaStreamSynchronize(stream);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  cudaStreamSynchronize(stream);
  return status;
}

TEST(Scalars, AreOfTheParentAlone) {
  const Folder folder;
  Program program = self("forks", {});
  program.environment = {{"TRAINTRACE_DIR", folder.path()}};
  const Outcome outcome = run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.errors;
  Lines all;
  for (const std::string& path : folder.traces()) {
    for (const std::string& scalar : scalars_of(read_raw(path))) {
      all.push_back(scalar);
    }
  }
  EXPECT_EQ(all, Lines{"4:3f000000"});
}

ROLE(killed) {
  const OnDevice<float> loss(0.5F);
  float here = 0;
  cudaMemcpy(&here, loss.memory, 4, cudaMemcpyDeviceToHost);
  kill(getpid(), SIGKILL);
  return 1;
}

TEST(Scalars, SurviveAKill) {
  EXPECT_EQ(scalars_of(trace_of("killed")), Lines{"4:3f000000"});
}

// The hashes, in the order of the copies.
std::vector<uint64_t> hashes_of(const RawTrace& trace) {
  std::vector<uint64_t> hashes;
  for (const RawRecord& record : trace.of("batchHash", format::kMoment)) {
    hashes.push_back(trace.value(record, "value"));
    EXPECT_NE(record.stack, 0u);
  }
  return hashes;
}

std::vector<uint64_t> sizes_of(const RawTrace& trace) {
  std::vector<uint64_t> sizes;
  for (const RawRecord& record : trace.of("batchHash", format::kMoment)) {
    sizes.push_back(trace.value(record, "bytes"));
  }
  return sizes;
}

constexpr size_t kMost = 1 << 20;

// Different everywhere.
std::vector<char> batch_of(unsigned seed) {
  std::vector<char> batch(kMost);
  for (char& byte : batch) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<char>(seed >> 24);
  }
  return batch;
}

ROLE(sends) {
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  void* memory = nullptr;
  cudaMalloc(&memory, kMost);
  const auto device = reinterpret_cast<CUdeviceptr>(memory);
  std::vector<char> first = batch_of(1);
  const std::vector<char> again = batch_of(1);
  const std::vector<char> other = batch_of(2);
  for (const size_t bytes : {512UL, 4096UL, 65536UL, 65537UL, kMost}) {
    cudaMemcpy(memory, first.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpyAsync(memory, again.data(), bytes, cudaMemcpyHostToDevice, stream);
    cuMemcpyHtoD(device, other.data(), bytes);
    cuMemcpyHtoDAsync(device, again.data(), bytes, stream);
    first[bytes - 1] = static_cast<char>(~first[bytes - 1]);
    cudaMemcpy(memory, first.data(), bytes, cudaMemcpyHostToDevice);
    first[bytes - 1] = static_cast<char>(~first[bytes - 1]);
  }
  cudaMemcpy(memory, first.data(), 511, cudaMemcpyHostToDevice);
  cudaMemcpy(first.data(), memory, kMost, cudaMemcpyDeviceToHost);
  cudaMemcpy(memory, static_cast<char*>(memory) + 4096, 4096, cudaMemcpyDeviceToDevice);
  return 0;
}

TEST(Batches, AreHashedByTheirContent) {
  const RawTrace trace = trace_of("sends", "batches");
  const std::vector<uint64_t> hashes = hashes_of(trace);
  const std::vector<uint64_t> sizes = sizes_of(trace);
  ASSERT_EQ(hashes.size(), 25u);
  for (size_t i = 0; i < 25; i += 5) {
    EXPECT_EQ(sizes[i], (std::vector<uint64_t>{512, 4096, 65536, 65537, kMost})[i / 5]);
    EXPECT_EQ(hashes[i], hashes[i + 1]) << sizes[i] << ": the same data elsewhere";
    EXPECT_NE(hashes[i], hashes[i + 2]) << sizes[i] << ": other data";
    EXPECT_EQ(hashes[i], hashes[i + 3]) << sizes[i];
    EXPECT_NE(hashes[i], hashes[i + 4]) << sizes[i] << ": another last byte";
    EXPECT_EQ(std::count(hashes.begin(), hashes.end(), hashes[i]), 3) << "sizes differ";
  }
}

TEST(Batches, AreNotHashedUnlessAskedFor) {
  EXPECT_EQ(hashes_of(trace_of("sends", "scalars")).size(), 0u);
  EXPECT_EQ(scalars_of(trace_of("items", "batches")), kItems) << "a level includes those below";
}

// Memory that a processor should leave alone; after its end the address is any memory.
ROLE(sends_from_elsewhere) {
  void* memory = nullptr;
  void* pinned = nullptr;
  void* combined = nullptr;
  void* managed = nullptr;
  cudaMalloc(&memory, 4096);
  cudaHostAlloc(&pinned, 4096, cudaHostAllocDefault);
  cudaHostAlloc(&combined, 8192, cudaHostAllocWriteCombined);
  cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal);
  const auto send = [&](void* from, size_t bytes) {
    cudaMemcpy(memory, from, bytes, cudaMemcpyHostToDevice);
  };
  send(pinned, 4096);  // is hashed
  send(combined, 4096);
  send(static_cast<char*>(combined) + 4096, 4096);
  send(managed, 4096);
  std::vector<char> registers(8192);
  if (cudaHostRegister(registers.data(), 8192, cudaHostRegisterIoMemory) != cudaSuccess) {
    return 2;
  }
  send(registers.data() + 512, 4096);
  cudaMemcpy(registers.data(), memory, 4, cudaMemcpyDeviceToHost);  // no scalar
  cudaHostUnregister(registers.data());
  cudaFreeHost(combined);
  cudaFree(managed);
  send(pinned, 2048);  // is hashed
  cudaHostAlloc(&combined, 8192, cudaHostAllocDefault);
  send(combined, 1024);  // is hashed
  return 0;
}

TEST(Batches, OfMemoryThatIsSlowOrMovesAreLeftOut) {
  const RawTrace trace = trace_of("sends_from_elsewhere", "batches");
  EXPECT_EQ(sizes_of(trace), (std::vector<uint64_t>{4096, 2048, 1024}));
  EXPECT_EQ(scalars_of(trace), Lines());
}

ROLE(sends_captured) {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  void* memory = nullptr;
  void* pinned = nullptr;
  cudaStreamCreate(&stream);
  cudaMalloc(&memory, 4096);
  cudaMallocHost(&pinned, 4096);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  cudaMemcpyAsync(memory, pinned, 4096, cudaMemcpyHostToDevice, stream);
  cudaStreamEndCapture(stream, &graph);
  cudaMemcpyAsync(memory, pinned, 2048, cudaMemcpyHostToDevice, stream);
  return 0;
}

TEST(Batches, AreNotHashedWhileCapturing) {
  EXPECT_EQ(sizes_of(trace_of("sends_captured", "batches")), (std::vector<uint64_t>{2048}));
}

// While other threads fill and unmap what was sent, the job goes on.
ROLE(sends_and_unmaps) {
  std::vector<std::thread> all;
  all.reserve(8);
  for (int i = 0; i < 8; ++i) {
    all.emplace_back([] {
      void* memory = nullptr;
      cudaMalloc(&memory, kMost);
      for (int step = 0; step < 50; ++step) {
        void* const batch =
            mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cudaMemcpy(memory, batch, step % 2 == 0 ? kMost : 65536, cudaMemcpyHostToDevice);
        munmap(batch, kMost);
      }
    });
  }
  for (std::thread& thread : all) {
    thread.join();
  }
  return 0;
}

TEST(Batches, OfManyThreadsAreTheirOwn) {
  EXPECT_EQ(hashes_of(trace_of("sends_and_unmaps", "batches")).size(), 8u * 50u);
}

}  // namespace
