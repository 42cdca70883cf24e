// A program of steps that treats its memory well or badly: `memory NAME`.  Prints what its finding
// must say, one `KEY VALUE` a line.
#include <nccl.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "program.h"

// A library whose name says that it is of cuBLAS (workspace.cc).
extern "C" void cublas_like_workspace(size_t bytes);
extern "C" void cublas_like_staging(size_t bytes);
extern "C" void cublas_like_clear(void* memory, size_t bytes);
extern "C" cudaError_t cublas_like_free(void* memory);
extern "C" void cublas_like_event();
extern "C" void* pinned_like_pytorch(size_t bytes);

namespace {

constexpr size_t kBytes = 3000;

void* allocate(size_t bytes) {
  void* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, bytes));
  return memory;
}

// Work, and memory that is given back.
void step() {
  void* scratch = allocate(kBytes);
  launch();
  CUDA_CHECK(cudaFree(scratch));
}

void growth(int steps, int every) {
  size_t leaked = 0;
  for (int i = 0; i < steps; ++i) {
    step();
    if (i % every == 0) {
      allocate(kBytes);
      leaked += kBytes;
    }
  }
  say("bytes", leaked);
  say("bytes_per_step", kBytes / static_cast<size_t>(every));
  say("block_count", leaked / kBytes);
}

void growth_from_the_middle_on() {
  for (int i = 0; i < 200; ++i) {
    step();
    if (i >= 100) {
      allocate(kBytes);
    }
  }
  say("bytes", 100 * kBytes);
  say("bytes_per_step", kBytes);
  say("steps_before_count", 100);
}

// A collector takes away what has gathered.
void sawtooth() {
  std::vector<void*> garbage;
  for (int i = 0; i < 430; ++i) {
    step();
    garbage.push_back(allocate(kBytes));
    for (; garbage.size() == 50; garbage.clear()) {
      for (void* memory : garbage) {
        CUDA_CHECK(cudaFree(memory));
      }
    }
  }
}

// The newest 64 are kept.
void bounded_cache() {
  std::deque<void*> cache;
  for (int i = 0; i < 400; ++i) {
    step();
    cache.push_back(allocate(kBytes));
    if (cache.size() > 64) {
      CUDA_CHECK(cudaFree(cache.front()));
      cache.pop_front();
    }
  }
}

// Each shape that is new gets a buffer; there are ever fewer that are.
void filling_cache() {
  std::map<int, void*> cache;
  int step_of_next = 1;
  for (int i = 1; i < 1000; ++i) {
    step();
    if (i == step_of_next) {
      cache[i] = allocate(kBytes);
      step_of_next += 1 + i / 8;
    }
  }
}

// Constant, and large.
void large_then_steps(bool pinned) {
  constexpr size_t kLarge = size_t{80} << 20;
  if (pinned) {
    void* memory = nullptr;
    CUDA_CHECK(cudaMallocHost(&memory, kLarge));
  } else {
    allocate(kLarge);
  }
  for (int i = 0; i < 40; ++i) {
    step();
  }
  say("bytes", kLarge);
}

void library_then_steps() {
  cublas_like_workspace(size_t{80} << 20);
  for (int i = 0; i < 40; ++i) {
    step();
  }
}

void weights_then_steps() {
  for (int i = 0; i < 100; ++i) {
    allocate(kBytes);
    launch();
  }
  for (int i = 0; i < 400; ++i) {
    step();
  }
}

void left_at_exit() {
  void* freed = allocate(kBytes);
  allocate(5 * kBytes);
  step();
  allocate(2 * kBytes);
  CUDA_CHECK(cudaFree(freed));
  say("bytes", 7 * kBytes);
  say("block_count", 2);
}

// The job frees its own; what its library holds is not its affair.
void left_by_library() {
  void* freed = allocate(kBytes);
  cublas_like_workspace(5 * kBytes);
  step();
  CUDA_CHECK(cudaFree(freed));
}

void all_freed() {
  void* memory = allocate(5 * kBytes);
  step();
  CUDA_CHECK(cudaFree(memory));
}

void never_cleans_up() {
  void* weights = allocate(5 * kBytes);
  for (int i = 0; i < 20; ++i) {
    launch();
  }
  CUDA_CHECK(cudaMemset(weights, 0, kBytes));
  say("bytes", 5 * kBytes);
}

void pinned_left() {
  void* freed = nullptr;
  void* left = nullptr;
  CUDA_CHECK(cudaMallocHost(&freed, kBytes));
  CUDA_CHECK(cudaHostAlloc(&left, 3 * kBytes, cudaHostAllocDefault));
  step();
  CUDA_CHECK(cudaFreeHost(freed));
  say("bytes", 3 * kBytes);
}

void leak_handles(bool destroy, bool slow_start) {
  for (int i = 0; i < 100; ++i) {
    cudaEvent_t event = nullptr;
    CUDA_CHECK(cudaEventCreate(&event));
    CUDA_CHECK(cudaEventRecord(event, nullptr));
    if (slow_start && i == 0) {
      usleep(100'000);  // longer than all steps together
    }
    launch();
    CUDA_CHECK(cudaEventSynchronize(event));
    if (destroy) {
      CUDA_CHECK(cudaEventDestroy(event));
    }
  }
  say("handle_count", 100);
}

void leak_handles_as(bool leaks) {
  if (leaks) {
    say(("culprit." + std::to_string(own_rank())).c_str(), 1);
  }
  leak_handles(!leaks, false);
}

// Libraries may keep what they make.
void library_events() {
  for (int i = 0; i < 100; ++i) {
    cublas_like_event();
    launch();
  }
}

void leak_streams(bool destroy) {
  for (int i = 0; i < 100; ++i) {
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    launch();
    CUDA_CHECK(cudaStreamSynchronize(stream));
    if (destroy) {
      CUDA_CHECK(cudaStreamDestroy(stream));
    }
  }
  say("handle_count", 100);
}

void event_pool() {
  std::vector<cudaEvent_t> pool(32);
  for (cudaEvent_t& event : pool) {
    CUDA_CHECK(cudaEventCreate(&event));
  }
  for (size_t i = 0; i < 300; ++i) {
    CUDA_CHECK(cudaEventRecord(pool[i % pool.size()], nullptr));
    launch();
  }
}

void free_twice() {
  void* memory = allocate(kBytes);
  step();
  CUDA_CHECK(cudaFree(memory));
  (void)cudaFree(memory);
  (void)cudaGetLastError();
}

void library_frees_twice() {
  void* memory = allocate(kBytes);
  step();
  CUDA_CHECK(cublas_like_free(memory));
  CHECK(cublas_like_free(memory) != cudaSuccess, "freed twice");
}

void free_inside() {
  void* memory = allocate(kBytes);
  step();
  (void)cudaFree(static_cast<char*>(memory) + 512);
  (void)cudaGetLastError();
  CUDA_CHECK(cudaFree(memory));
}

// The address comes again, and is freed again.
void free_again() {
  for (int i = 0; i < 20; ++i) {
    step();
    CUDA_CHECK(cudaFree(nullptr));
  }
}

constexpr size_t kMega = size_t{1} << 20;  // of devices with 64 MiB

// What PyTorch and others do when they run out: ask, say, end.
void end_without(size_t bytes) {
  void* memory = nullptr;
  size_t free = 0;
  size_t total = 0;
  CHECK(cudaMalloc(&memory, bytes) == cudaErrorMemoryAllocation, "%zu bytes were had", bytes);
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  say("requested_bytes", bytes);
  say("free_bytes", free);
  say("total_bytes", total);
  exit(1);
}

void ask() {
  size_t free = 0;
  size_t total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
}

void beyond_capacity() {
  step();
  allocate(40 * kMega);
  allocate(8 * kMega);
  ask();
  say("job_bytes", 48 * kMega);
  end_without(32 * kMega);
}

// Half of it is free, in pieces.
void in_pieces() {
  std::vector<void*> pieces(16);
  for (void*& piece : pieces) {
    piece = allocate(4 * kMega);
  }
  for (size_t i = 0; i < pieces.size(); i += 2) {
    CUDA_CHECK(cudaFree(pieces[i]));
  }
  ask();
  say("job_bytes", 32 * kMega);
  end_without(8 * kMega);
}

// Many give up at once: only the tracer asks then.
void in_pieces_unasked() {
  std::vector<void*> pieces(16);
  for (void*& piece : pieces) {
    piece = allocate(4 * kMega);
  }
  for (size_t i = 0; i < pieces.size(); i += 2) {
    CUDA_CHECK(cudaFree(pieces[i]));
  }
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 8 * kMega) == cudaErrorMemoryAllocation, "it was had");
  say("requested_bytes", 8 * kMega);
  say("job_bytes", 32 * kMega);
  say("free_bytes", 32 * kMega);
  say("total_bytes", 64 * kMega);
  exit(1);
}

// What looks like steps fills the device; then the program frees every second block of it.
void holes_between_blocks() {
  std::vector<void*> blocks(48);
  for (void*& block : blocks) {
    block = allocate(kMega);
    launch();
  }
  for (size_t i = 0; i < blocks.size(); i += 2) {
    CUDA_CHECK(cudaFree(blocks[i]));
  }
  ask();
  say("job_bytes", 24 * kMega);
  end_without(30 * kMega);
}

// Of the blocks of each step the last is forgotten, until there is no room; whoever then cleans up
// finds those of one step.
void growth_until_it_is_full() {
  std::vector<void*> of_step;
  size_t forgotten = 0;
  for (void* memory = nullptr; cudaMalloc(&memory, kMega) == cudaSuccess;) {
    of_step.push_back(memory);
    if (of_step.size() == 4) {
      launch();
      of_step.pop_back();
      ++forgotten;
      for (void* const block : of_step) {
        CUDA_CHECK(cudaFree(block));
      }
      of_step.clear();
    }
  }
  for (void* const block : of_step) {
    CUDA_CHECK(cudaFree(block));
  }
  say("bytes", forgotten * kMega);
  say("bytes_per_step", kMega);
  exit(1);
}

void beside_another() {
  allocate(8 * kMega);
  ask();
  say("job_bytes", 8 * kMega);
  say("other_bytes", 40 * kMega);
  end_without(32 * kMega);
}

void beside_another_unasked() {
  allocate(8 * kMega);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 32 * kMega) == cudaErrorMemoryAllocation, "it was had");
  say("requested_bytes", 32 * kMega);
  say("job_bytes", 8 * kMega);
  say("other_bytes", 40 * kMega);
  exit(1);
}

void beside_a_library() {
  allocate(8 * kMega);
  cublas_like_workspace(40 * kMega);
  ask();
  say("job_bytes", 8 * kMega);
  say("library_bytes", 40 * kMega);
  end_without(32 * kMega);
}

void without_asking() {
  allocate(48 * kMega);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 32 * kMega) == cudaErrorMemoryAllocation, "it was had");
  say("requested_bytes", 32 * kMega);
  say("job_bytes", 48 * kMega);
  say("free_bytes", 16 * kMega);
  exit(1);
}

void oom_overcome() {
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 128 * kMega) == cudaErrorMemoryAllocation, "it was had");
  (void)cudaGetLastError();
  all_freed();
}

void hold() {
  allocate(40 * kMega);
  printf("holding\n");
  fflush(stdout);
  for (;;) {
    pause();
  }
}

void library(size_t bytes, bool asked) {
  cublas_like_workspace(bytes);
  if (asked) {
    ask();
  }
  step();
  say("bytes", bytes);
}

// Enough on both together, and on neither.
void library_on_two_devices() {
  for (const int device : {1, 0}) {
    CUDA_CHECK(cudaSetDevice(device));
    cublas_like_workspace(40 * kMega);
  }
  step();
}

void library_on_the_host() {
  cublas_like_staging(80 * kMega);
  step();
}

void work_with_communicator() {
  ncclUniqueId id = {};
  ncclComm_t communicator = nullptr;
  CHECK(ncclGetUniqueId(&id) == ncclSuccess &&
            ncclCommInitRank(&communicator, 1, id, 0) == ncclSuccess,
        "no communicator");
  launch();
}

// The first rank's device gets what the second rank should have on its own.
void on_device_of(int device) {
  work_with_communicator();
  if (own_rank() == 1) {
    CUDA_CHECK(cudaSetDevice(device));
    allocate(5 * kBytes);
    CUDA_CHECK(cudaSetDevice(1));
    say("bytes", device == 1 ? 0 : 5 * kBytes);
  }
  sleep(1);  // so that both are there at the same time
}

// 200 MiB on each rank, and on one as much more as it says, which it gives back.
void with_more_on_one(size_t more) {
  void* const equal = allocate(200 * kMega);
  const bool is_one = own_rank() == 2;
  if (is_one) {
    void* const own = allocate(more);
    say("culprit.2", 1);
    say("peak_bytes", 200 * kMega + more);
    CUDA_CHECK(cudaFree(own));
  }
  for (int i = 0; i < 20; ++i) {
    step();
  }
  CUDA_CHECK(cudaFree(equal));
}

// It has more because it never gives back what it takes in each step.
void with_a_leak_on_one() {
  void* const equal = allocate(200 * kMega);
  for (int i = 0; i < 30; ++i) {
    if (own_rank() == 2) {
      allocate(5 * kMega);
    }
    step();
  }
  if (own_rank() == 2) {
    say("culprit.2", 1);
    say("bytes_per_step", 5 * kMega);
  }
  CUDA_CHECK(cudaFree(equal));
}

void work_beside_another_rank() {
  work_with_communicator();
  sleep(1);  // so that both are there at the same time
}

// Before it chose its device it allocated (main).
void on_device_too_late() {
  work_beside_another_rank();
  say("bytes", 5 * kBytes);
}

// Set while device 1 is current, in every step.
void set_from_afar() {
  for (int i = 0; i < 9; ++i) {
    void* const block = allocate(kBytes);
    CUDA_CHECK(cudaSetDevice(1));
    CUDA_CHECK(cudaMemset(block, 0, kBytes));
    CUDA_CHECK(cudaDeviceSynchronize());  // what frees it waits for its own device only
    CUDA_CHECK(cudaSetDevice(0));
    launch();
    CUDA_CHECK(cudaFree(block));
  }
  launch();
  say("use_count", 9);
}

// Managed memory is of every device.
void managed_from_afar() {
  void* block = nullptr;
  CUDA_CHECK(cudaMallocManaged(&block, kBytes, cudaMemAttachGlobal));
  for (int i = 0; i < 9; ++i) {
    CUDA_CHECK(cudaSetDevice(1));
    CUDA_CHECK(cudaMemset(block, 0, kBytes));
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaSetDevice(0));
    launch();
  }
  CUDA_CHECK(cudaFree(block));
}

// A library may know what it does.
void library_sets_from_afar() {
  void* const block = allocate(kBytes);
  for (int i = 0; i < 9; ++i) {
    CUDA_CHECK(cudaSetDevice(1));
    cublas_like_clear(block, kBytes);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaSetDevice(0));
    launch();
  }
  CUDA_CHECK(cudaFree(block));
}

// Freed while device 1 is current: in every step, or behind them.
void free_from_afar(bool in_step, bool switched) {
  void* last = nullptr;
  for (int i = 0; i < 10; ++i) {
    last = allocate(kBytes);
    launch();
    if (in_step || i != 9) {
      CUDA_CHECK(cudaSetDevice(switched && in_step ? 1 : 0));
      CUDA_CHECK(cudaFree(last));
      CUDA_CHECK(cudaSetDevice(0));
      last = nullptr;
    }
  }
  CUDA_CHECK(cudaSetDevice(1));
  CUDA_CHECK(cudaFree(last));
  CUDA_CHECK(cudaSetDevice(0));
  say("use_count", 9);  // the last is behind the last launch
}

// Blocks of a power of two, and batches that fill them, or do not.
void pinned(size_t block, size_t batch) {
  void* const device = allocate(batch);
  for (int i = 0; i < 4; ++i) {
    void* const host = pinned_like_pytorch(block);
    CUDA_CHECK(cudaMemcpyAsync(device, host, batch, cudaMemcpyHostToDevice, nullptr));
    launch();
  }
  CUDA_CHECK(cudaFree(device));
  say("bytes", 4 * (block - batch));
  say("block_count", 4);
}

constexpr size_t kBlock = 64 * kMega;

// What kernels read from where it is shows in no copy.
void pinned_without_copies() {
  for (int i = 0; i < 4; ++i) {
    pinned_like_pytorch(kBlock);
    launch();
  }
}

// Rows that lie apart reach further than they have bytes.
void pinned_for_rows() {
  void* const device = allocate(kBlock);
  void* const host = pinned_like_pytorch(kBlock);
  constexpr size_t kRows = 16;
  CUDA_CHECK(cudaMemcpy2D(device, kBlock / kRows, host, kBlock / kRows, kMega, kRows,
                          cudaMemcpyHostToDevice));
  launch();
  CUDA_CHECK(cudaFree(device));
}

// The job's own code asked for just that.
void pinned_by_itself() {
  void* const device = allocate(kBlock);
  for (int i = 0; i < 4; ++i) {
    void* host = nullptr;
    CUDA_CHECK(cudaHostAlloc(&host, kBlock, cudaHostAllocDefault));
    CUDA_CHECK(cudaMemcpy(device, host, 40 * kMega, cudaMemcpyHostToDevice));
    launch();
  }
  CUDA_CHECK(cudaFree(device));
}

// On two devices, of which one has a pool; by device.
void peaks() {
  for (const int device : {1, 0}) {
    CUDA_CHECK(cudaSetDevice(device));
    void* const first = allocate(5 * kBytes);
    void* const second = allocate(7 * kBytes);
    CUDA_CHECK(cudaFree(first));
    void* third = nullptr;
    CUDA_CHECK(cudaMallocManaged(&third, 4 * kBytes, cudaMemAttachGlobal));
    CUDA_CHECK(cudaMallocHost(&third, 20 * kBytes));
    CUDA_CHECK(cudaFree(second));
  }
  void* pooled = nullptr;
  CUDA_CHECK(cudaMallocAsync(&pooled, 9 * kBytes, nullptr));
  CUDA_CHECK(cudaFreeAsync(pooled, nullptr));
  step();
  say("0", 13 * kBytes);
  say("1", 12 * kBytes);
}

// A copy that used more may be among the records that are lost.
void pinned_behind_what_is_lost() {
  for (int i = 0; i < 60'000; ++i) {
    launch();
  }
  pinned(kBlock, 40 * kMega);
}

const Cases kCases = {
    {"peaks", peaks},
    {"pinned-rounded", [] { pinned(64 * kMega, 40 * kMega); }},
    {"pinned-filled", [] { pinned(64 * kMega, 60 * kMega); }},
    {"pinned-not-rounded", [] { pinned(63 * kMega, 40 * kMega); }},
    {"pinned-little", [] { pinned(4 * kMega, 2 * kMega); }},
    {"pinned-without-copies", pinned_without_copies},
    {"pinned-for-rows", pinned_for_rows},
    {"pinned-by-itself", pinned_by_itself},
    {"pinned-behind-what-is-lost", pinned_behind_what_is_lost},
    {"library-on-two-devices", library_on_two_devices},
    {"library-on-the-host", library_on_the_host},
    {"library-sets-from-afar", library_sets_from_afar},
    {"library", [] { library(80 * kMega, true); }},
    {"library-of-a-large-device", [] { library(80 * kMega, false); }},
    {"library-small", [] { library(40 * kMega, true); }},
    {"other-device", [] { on_device_of(0); }},
    {"own-device", [] { on_device_of(1); }},
    {"device-too-late", on_device_too_late},
    {"more-on-one", [] { with_more_on_one(100 * kMega); }},
    {"little-more-on-one", [] { with_more_on_one(45 * kMega); }},
    {"leak-on-one", with_a_leak_on_one},
    {"device-put-away", [] { work_beside_another_rank(); }},
    {"managed-from-afar", managed_from_afar},
    {"left-in-a-hurry", left_at_exit},
    {"left-by-library", left_by_library},
    {"library-events", library_events},
    {"library-frees-twice", library_frees_twice},
    {"set-from-afar", set_from_afar},
    {"free-from-afar", [] { free_from_afar(true, true); }},
    {"free-at-home", [] { free_from_afar(true, false); }},
    {"free-last-from-afar", [] { free_from_afar(false, true); }},
    {"oom-capacity", beyond_capacity},
    {"oom-pieces", in_pieces},
    {"oom-pieces-unasked", in_pieces_unasked},
    {"oom-holes", holes_between_blocks},
    {"oom-growth", growth_until_it_is_full},
    {"oom-neighbour", beside_another},
    {"oom-neighbour-unasked", beside_another_unasked},
    {"oom-library", beside_a_library},
    {"oom-unasked", without_asking},
    {"oom-overcome", oom_overcome},
    {"hold", hold},
    {"growth", [] { growth(200, 1); }},
    {"growth-seldom", [] { growth(4000, 100); }},
    {"growth-late", growth_from_the_middle_on},
    {"sawtooth", sawtooth},
    {"bounded-cache", bounded_cache},
    {"filling-cache", filling_cache},
    {"weights", weights_then_steps},
    {"left", left_at_exit},
    {"all-freed", all_freed},
    {"kept", never_cleans_up},
    {"pinned-left", pinned_left},
    {"events", [] { leak_handles(false, false); }},
    {"events-slow-start", [] { leak_handles(false, true); }},
    {"events-of-one", [] { leak_handles_as(own_rank() == 2); }},
    {"events-of-ninth", [] { leak_handles_as(own_rank() == 8); }},
    {"events-of-all", [] { leak_handles_as(true); }},
    {"events-destroyed", [] { leak_handles(true, false); }},
    {"event-pool", event_pool},
    {"streams", [] { leak_streams(false); }},
    {"streams-destroyed", [] { leak_streams(true); }},
    {"large", [] { large_then_steps(false); }},
    {"large-pinned", [] { large_then_steps(true); }},
    {"library-then-steps", library_then_steps},
    {"free-twice", free_twice},
    {"free-inside", free_inside},
    {"free-again", free_again},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "device-too-late") {
    allocate(5 * kBytes);  // on device 0, whose rank is another one
  } else if (name == "device-put-away") {
    CUDA_CHECK(cudaSetDevice(own_rank()));
    CU_CHECK(cuCtxSetCurrent(nullptr));  // which one is current then is the runtime's affair
    allocate(5 * kBytes);
  }
  return run_case(kCases, argc, argv);
}
