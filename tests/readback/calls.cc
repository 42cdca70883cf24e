// Makes calls and prints them, for readback.py:
//   calls threads THREADS CALLS    cudaMemset from many threads: `memset THREAD BYTES` per call,
//   and a sum calls collectives STEPS        collectives on several devices: `call RANK FUNCTION
//   COUNT TYPE OP ROOT STREAM`
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

void check(bool good, const char* what) {
  if (!good) {
    std::fprintf(stderr, "calls: %s failed\n", what);
    std::exit(1);
  }
}

int call_from_threads(int threads, int calls) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, 256) == cudaSuccess, "cudaMalloc");
  std::vector<std::thread> all;
  all.reserve(static_cast<size_t>(threads));
  for (int thread = 0; thread < threads; ++thread) {
    all.emplace_back([=] {
      for (int i = 0; i < calls; ++i) {
        check(cudaMemset(memory, thread, static_cast<size_t>(i % 256)) == cudaSuccess,
              "cudaMemset");
      }
    });
  }
  for (std::thread& thread : all) {
    thread.join();
  }
  check(cudaFree(memory) == cudaSuccess, "cudaFree");
  std::printf("memsets %d %d\n", threads, calls);
  return 0;
}

struct Member {
  ncclComm_t communicator;
  cudaStream_t stream;
  float* buffer;
};

constexpr int kDevices = 3;
constexpr size_t kElements = 1 << 16;

void make_members(std::vector<Member>& members) {
  std::vector<ncclComm_t> communicators(kDevices);
  check(ncclCommInitAll(communicators.data(), kDevices, nullptr) == ncclSuccess, "ncclCommInitAll");
  for (int device = 0; device < kDevices; ++device) {
    Member& member = members.emplace_back();
    member.communicator = communicators[static_cast<size_t>(device)];
    check(cudaSetDevice(device) == cudaSuccess, "cudaSetDevice");
    check(cudaStreamCreate(&member.stream) == cudaSuccess, "cudaStreamCreate");
    check(cudaMalloc(reinterpret_cast<void**>(&member.buffer), kElements * sizeof(float)) ==
              cudaSuccess,
          "cudaMalloc");
  }
}

void say(int rank, const char* function, size_t count, const char* type, const char* operation,
         int root, cudaStream_t stream) {
  std::printf("call %d %s %zu %s %s %d %#llx\n", rank, function, count, type, operation, root,
              static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(stream)));
}

void one_step(const std::vector<Member>& members, int step) {
  const auto count = static_cast<size_t>(step % 7 + 1) * 100;
  const int root = step % kDevices;
  check(ncclGroupStart() == ncclSuccess, "ncclGroupStart");
  for (int rank = 0; rank < kDevices; ++rank) {
    const Member& member = members[static_cast<size_t>(rank)];
    if (step % 3 == 0) {
      say(rank, "ncclBroadcast", count, "float32", "-", root, member.stream);
      check(ncclBroadcast(member.buffer, member.buffer, count, ncclFloat, root, member.communicator,
                          member.stream) == ncclSuccess,
            "ncclBroadcast");
    } else {
      say(rank, "ncclAllReduce", count, "float32", step % 3 == 1 ? "max" : "sum", -1,
          member.stream);
      check(ncclAllReduce(member.buffer, member.buffer, count, ncclFloat,
                          step % 3 == 1 ? ncclMax : ncclSum, member.communicator,
                          member.stream) == ncclSuccess,
            "ncclAllReduce");
    }
  }
  check(ncclGroupEnd() == ncclSuccess, "ncclGroupEnd");
}

int call_collectives(int steps) {
  std::vector<Member> members;
  make_members(members);
  for (int step = 0; step < steps; ++step) {
    one_step(members, step);
  }
  for (const Member& member : members) {
    check(cudaStreamSynchronize(member.stream) == cudaSuccess, "cudaStreamSynchronize");
    check(ncclCommDestroy(member.communicator) == ncclSuccess, "ncclCommDestroy");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "threads" && argc == 4) {
    return call_from_threads(std::atoi(argv[2]), std::atoi(argv[3]));
  }
  if (what == "collectives" && argc == 3) {
    return call_collectives(std::atoi(argv[2]));
  }
  std::fprintf(stderr, "usage: calls threads THREADS CALLS | collectives STEPS\n");
  return 2;
}
