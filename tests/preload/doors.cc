// test: link=none
// The doors through which programs reach CUDA and NCCL, and the traps behind them
// (docs/interposing.md): each call is recorded once, whichever way it comes.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <nccl.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::Folder;
using preload::Outcome;
using preload::RawTrace;
namespace format = traintrace::format;

template <class Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}
#define FIND(library, function) find<decltype(function)>(library, #function)
auto find_malloc(void* library) {  // overloaded in the header
  return find<cudaError_t(void**, size_t)>(library, "cudaMalloc");
}

struct Recorded {
  Outcome outcome;
  RawTrace trace;
};

Recorded run_role(const std::string& role, const std::string& more_preloads_before = "",
                  const std::string& more_preloads_after = "") {
  const Folder folder;
  preload::Program program = preload::self(role, {folder.path()});
  program.environment = {{"TRAINTRACE_DIR", folder.path() + "/traces"},
                         {"TRAINTRACE_RING_MB", "1"}};
  program.preload_before = more_preloads_before;
  program.preload_after = more_preloads_after;
  Recorded run;
  run.outcome = preload::run(program);
  EXPECT_TRUE(run.outcome.exited_with(0)) << run.outcome.output << run.outcome.errors;
  EXPECT_EQ(run.outcome.errors, "");
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/traces")) {
    run.trace = preload::read_raw(entry.path());
  }
  EXPECT_EQ(run.trace.problems, std::vector<std::string>());
  return run;
}

std::string fixture(const char* name) {
  return std::string(PRELOAD_FIXTURES) + "/lib" + name + ".so";
}

int call_through_plt(int flags) {
  void* const library = dlopen(fixture("through_plt").c_str(), RTLD_NOW | flags);
  const auto call = find<cudaError_t(size_t)>(library, "allocate_and_free");
  return call ? call(1000) : -1;
}

// The original is loaded out of sight of all but the caller.
ROLE(local) {
  return call_through_plt(RTLD_LOCAL);
}
ROLE(global) {
  return call_through_plt(RTLD_GLOBAL);
}

TEST(Doors, PltOfALibraryThatIsLoadedLocally) {
  for (const char* role : {"local", "global"}) {
    const RawTrace trace = run_role(role).trace;
    ASSERT_EQ(trace.entered("cudaMalloc"), 1u) << role;
    EXPECT_EQ(trace.value(trace.of("cudaMalloc", format::kEnter)[0], "bytes"), 1000u);
    EXPECT_EQ(trace.left("cudaFree"), 1u);
    // The runtime's own calls to the driver are parts of these, not records.
    EXPECT_EQ(trace.entered("cuMemAlloc_v2"), 0u);
    EXPECT_EQ(trace.records.size(), 4u);
  }
}

ROLE(dlsym_runtime) {
  void* const library = dlopen("libcudart.so.13", RTLD_NOW);
  const auto allocate = find_malloc(library);
  const auto by_version =
      reinterpret_cast<decltype(cudaFree)*>(dlvsym(library, "cudaFree", "libcudart.so.13"));
  void* memory = nullptr;
  return allocate && by_version && allocate(&memory, 10) == cudaSuccess &&
                 by_version(memory) == cudaSuccess
             ? 0
             : 1;
}

TEST(Doors, DlsymAndDlvsym) {
  const RawTrace trace = run_role("dlsym_runtime").trace;
  EXPECT_EQ(trace.left("cudaMalloc"), 1u);
  EXPECT_EQ(trace.left("cudaFree"), 1u);
  EXPECT_EQ(trace.stats, (std::map<std::string, uint64_t>()));
}

// Code that is compiled for per-thread default streams means another stream by 0.
ROLE(per_thread) {
  void* const library = dlopen("libcudart.so.13", RTLD_NOW);
  using Set = cudaError_t(void*, int, size_t, cudaStream_t);
  void* memory = nullptr;
  if (find_malloc(library)(&memory, 8) != cudaSuccess) {
    return 1;
  }
  find<Set>(library, "cudaMemsetAsync")(memory, 0, 8, nullptr);
  find<Set>(library, "cudaMemsetAsync_ptsz")(memory, 0, 8, nullptr);
  return FIND(library, cudaDeviceSynchronize)();
}

TEST(Doors, PerThreadDefaultStreams) {
  const RawTrace trace = run_role("per_thread").trace;
  const auto legacy = trace.of("cudaMemsetAsync", format::kEnter);
  const auto per_thread = trace.of("cudaMemsetAsync_ptsz", format::kEnter);
  ASSERT_EQ(legacy.size(), 1u);
  ASSERT_EQ(per_thread.size(), 1u);
  EXPECT_EQ(trace.value(legacy[0], "stream"), 0u);
  EXPECT_EQ(trace.value(per_thread[0], "stream"), 2u);
}

// What a call hands back is looked at only if it succeeded.
ROLE(fails) {
  void* const library = dlopen("libcudart.so.13", RTLD_NOW);
  void* untouched = &untouched;
  return find_malloc(library)(&untouched, size_t{1} << 60) == cudaErrorMemoryAllocation ? 0 : 1;
}

TEST(Doors, FailedCallsGiveNothing) {
  const RawTrace trace = run_role("fails").trace;
  const auto left = trace.of("cudaMalloc", format::kLeave);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].result(), cudaErrorMemoryAllocation);
  EXPECT_TRUE(left[0].values.empty());
  EXPECT_TRUE(trace.allocations.empty());
}

// Both ways to ask for entry points, with 4 and 5 arguments, and the way of asking for themselves.
ROLE(proc_address) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  const auto ask = FIND(library, cuGetProcAddress_v2);
  const auto initialize = FIND(library, cuInit);
  void* old_ask = nullptr;
  void* new_ask = nullptr;
  void* context_function = nullptr;
  void* old_allocate = nullptr;
  void* allocate = nullptr;
  void* nothing = &nothing;
  auto status = static_cast<CUdriverProcAddressQueryResult>(99);
  if (!ask || initialize(0) != CUDA_SUCCESS ||
      ask("cuGetProcAddress", &old_ask, 11030, 0, nullptr) != CUDA_SUCCESS ||
      ask("cuGetProcAddress", &new_ask, 12000, 0, &status) != CUDA_SUCCESS) {
    return 1;
  }
  if (status != CU_GET_PROC_ADDRESS_SUCCESS || old_ask == new_ask) {
    return 2;
  }
  const auto ask4 = reinterpret_cast<CUresult (*)(const char*, void**, int, cuuint64_t)>(old_ask);
  const auto ask5 = reinterpret_cast<decltype(cuGetProcAddress_v2)*>(new_ask);
  if (ask4("cuCtxCreate", &context_function, 3020, 0) != CUDA_SUCCESS ||
      ask4("cuMemAlloc", &old_allocate, 3020, 0) != CUDA_SUCCESS ||
      ask5("cuMemAlloc", &allocate, 13000, 0, &status) != CUDA_SUCCESS ||
      old_allocate != allocate) {
    return 3;
  }
  if (ask5("cuNoSuchThing", &nothing, 13000, 0, &status) == CUDA_SUCCESS &&
      status == CU_GET_PROC_ADDRESS_SUCCESS) {
    return 4;
  }
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  const auto create =
      reinterpret_cast<CUresult (*)(CUcontext*, unsigned, CUdevice)>(context_function);
  return create(&context, 0, 0) == CUDA_SUCCESS &&
                 reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t)>(allocate)(&memory, 77) ==
                     CUDA_SUCCESS
             ? 0
             : 5;
}

TEST(Doors, CuGetProcAddress) {
  const RawTrace trace = run_role("proc_address").trace;
  ASSERT_EQ(trace.left("cuMemAlloc_v2"), 1u);
  EXPECT_EQ(trace.value(trace.of("cuMemAlloc_v2", format::kEnter)[0], "bytes"), 77u);
  EXPECT_EQ(trace.left("cuCtxCreate_v2"), 1u);
  EXPECT_EQ(trace.of("cuMemAlloc_v2", format::kEnter)[0].device, 0);
}

ROLE(entry_point) {
  void* const library = dlopen("libcudart.so.13", RTLD_NOW);
  void* allocate = nullptr;
  void* by_version = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  // Deprecated, still used, and of a type of its own.
  const auto ask =
      find<cudaError_t(const char*, void**, unsigned long long, cudaDriverEntryPointQueryResult*)>(
          library, "cudaGetDriverEntryPoint");
  if (ask("cuMemAlloc", &allocate, cudaEnableDefault, &status) != cudaSuccess ||
      status != cudaDriverEntryPointSuccess ||
      FIND(library, cudaGetDriverEntryPointByVersion)("cuMemAlloc", &by_version, 12000,
                                                      cudaEnableDefault, nullptr) != cudaSuccess ||
      allocate != by_version || FIND(library, cudaFree)(nullptr) != cudaSuccess) {
    return 1;
  }
  CUdeviceptr memory = 0;
  return reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t)>(allocate)(&memory, 78);
}

TEST(Doors, CudaGetDriverEntryPoint) {
  EXPECT_EQ(run_role("entry_point").trace.left("cuMemAlloc_v2"), 1u);
}

// NCCL opened as vLLM and JAX do it; what its own copy of the runtime calls is the owner's.
struct Range {
  const char* name;
  uintptr_t begin;
  uintptr_t end;
};

int find_range(dl_phdr_info* info, size_t, void* context) {
  Range& range = *static_cast<Range*>(context);
  if (std::string(info->dlpi_name).find(range.name) != std::string::npos) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      if (info->dlpi_phdr[i].p_type == PT_LOAD) {
        range.begin = range.begin ? range.begin : info->dlpi_addr;
        range.end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
      }
    }
  }
  return 0;
}

ROLE(nccl) {
  void* const runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  ncclComm_t communicators[2] = {};
  void* memory[2] = {};
  if (!library || FIND(library, ncclCommInitAll)(communicators, 2, nullptr) != ncclSuccess) {
    return 1;
  }
  for (int i = 0; i < 2; ++i) {
    FIND(runtime, cudaSetDevice)(i);
    find_malloc(runtime)(&memory[i], 4096);
  }
  FIND(library, ncclGroupStart)();
  for (int i = 0; i < 2; ++i) {
    FIND(library, ncclAllReduce)
    (memory[i], memory[i], 1024, ncclFloat, ncclSum, communicators[i], nullptr);
  }
  if (FIND(library, ncclGroupEnd)() != ncclSuccess) {
    return 2;
  }
  for (int i = 0; i < 2; ++i) {
    FIND(runtime, cudaSetDevice)(i);
    FIND(runtime, cudaDeviceSynchronize)();
    FIND(library, ncclCommDestroy)(communicators[i]);
  }
  Range range = {"libnccl", 0, 0};
  dl_iterate_phdr(find_range, &range);
  std::printf("%lx %lx\n", range.begin, range.end);
  return 0;
}

// What the headers say that simgpu was built with, which is what it says of itself.
TEST(Doors, VersionsOfTheDriverAndOfNccl) {
  std::map<std::string, std::string> facts = run_role("nccl").trace.facts;
  EXPECT_EQ(facts["nccl-version"], std::to_string(NCCL_MAJOR) + "." + std::to_string(NCCL_MINOR) +
                                       "." + std::to_string(NCCL_PATCH));
  EXPECT_EQ(facts["cuda-driver-version"],
            std::to_string(CUDA_VERSION / 1000) + "." + std::to_string(CUDA_VERSION % 1000 / 10));
  facts = run_role("dlsym_runtime").trace.facts;
  EXPECT_EQ(facts.count("nccl-version"), 0u);
}

TEST(Doors, NcclOpenedLocallyAndItsOwnRuntime) {
  const Recorded run = run_role("nccl");
  EXPECT_EQ(run.trace.left("ncclAllReduce"), 2u);
  EXPECT_EQ(run.trace.left("ncclGroupEnd"), 1u);
  EXPECT_EQ(run.trace.left("ncclCommInitAll"), 1u);
  EXPECT_EQ(run.trace.left("ncclCommDestroy"), 2u);
  uint64_t begin = 0;
  uint64_t end = 0;
  ASSERT_EQ(std::sscanf(run.outcome.output.c_str(), "%lx %lx", &begin, &end), 2);
  uint64_t of_nccl = 0;
  for (const auto& record : run.trace.records) {
    if (record.type == format::kEnter && run.trace.name_of(record).starts_with("cu") &&
        !run.trace.name_of(record).starts_with("cuda")) {
      EXPECT_TRUE(record.caller >= begin && record.caller < end) << run.trace.name_of(record);
      ++of_nccl;
    }
  }
  EXPECT_GT(of_nccl, 0u);
  ASSERT_EQ(run.trace.communicators.size(), 2u);
  EXPECT_EQ(run.trace.communicators[0].id, run.trace.communicators[1].id);
}

// dlsym answers by who calls: a wrapper that called the real one would hand its caller to itself.
TEST(Doors, AnotherPreloadBehindThisOne) {
  const Recorded run = run_role("global", "", fixture("chained"));
  EXPECT_EQ(run.outcome.output, "chained 1000\n");
  EXPECT_EQ(run.trace.left("cudaMalloc"), 1u);
}

TEST(Doors, AnotherPreloadInFrontOfThisOne) {
  const Recorded run = run_role("global", fixture("chained"));
  EXPECT_EQ(run.outcome.output, "chained 1000\n");
  EXPECT_EQ(run.trace.left("cudaMalloc"), 1u);
}

ROLE(both_names) {
  void* const runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL);
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);
  ncclComm_t communicator = nullptr;
  void* memory = nullptr;
  if (!library || FIND(library, ncclCommInitAll)(&communicator, 1, nullptr) != ncclSuccess ||
      find_malloc(runtime)(&memory, 4096) != cudaSuccess) {
    return 1;
  }
  const auto usual = FIND(RTLD_DEFAULT, ncclAllReduce);
  const auto second = find<decltype(ncclAllReduce)>(RTLD_DEFAULT, "pncclAllReduce");
  const auto by_handle = find<decltype(ncclAllReduce)>(library, "pncclAllReduce");
  for (const auto call : {usual, second, by_handle}) {
    if (!call ||
        call(memory, memory, 8, ncclFloat, ncclSum, communicator, nullptr) != ncclSuccess) {
      return 2;
    }
  }
  return FIND(runtime, cudaDeviceSynchronize)();
}

TEST(Doors, NcclsSecondNamesAreTheSameCalls) {
  const std::string profiler = fixture("nccl_profiler");
  const Recorded runs[] = {run_role("both_names"), run_role("both_names", profiler),
                           run_role("both_names", "", profiler)};
  for (const Recorded& run : runs) {
    const auto calls = run.trace.of("ncclAllReduce", format::kEnter);
    ASSERT_EQ(calls.size(), 3u);
    for (size_t i = 0; i < calls.size(); ++i) {
      EXPECT_EQ(run.trace.value(calls[i], "seq"), i + 1);
    }
    EXPECT_EQ(run.outcome.output, &run == runs ? "" : "profiled 8\n");
  }
}

ROLE(nothing) {
  return 0;
}

TEST(Doors, CallsOfConstructors) {
  EXPECT_EQ(run_role("nothing", fixture("early")).trace.left("cudaMalloc"), 1u);
  EXPECT_EQ(run_role("nothing", "", fixture("early")).trace.left("cudaMalloc"), 1u);
}

// A hook of dlopen would change whose RUNPATH counts.
ROLE(runpath) {
  void* const library = dlopen(fixture("opener").c_str(), RTLD_NOW);
  const auto open_neighbour = find<int()>(library, "open_neighbour");
  return open_neighbour && open_neighbour() ? call_through_plt(RTLD_LOCAL) : 1;
}

TEST(Doors, DlopenKeepsItsCallersRunpath) {
  EXPECT_EQ(run_role("runpath").trace.left("cudaMalloc"), 1u);
}

// Two copies of one library, each with callers that are bound to it.
ROLE(two_copies) {
  namespace fs = std::filesystem;
  const fs::path copy = fs::path(arguments.at(0)) / "libcudart-copy.so";
  void* const first = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
  Dl_info info;
  dladdr(reinterpret_cast<void*>(dlsym(first, "cudaGetErrorString")), &info);
  fs::copy_file(info.dli_fname, copy);
  void* const second = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* memory = nullptr;
  return second && find_malloc(first)(&memory, 1) == cudaSuccess &&
                 find_malloc(second)(&memory, 2) == cudaSuccess &&
                 find_malloc(first) != find_malloc(second)
             ? 0
             : 1;
}

TEST(Doors, ASecondCopyIsLeftAloneAndCounted) {
  const RawTrace trace = run_role("two_copies").trace;
  ASSERT_EQ(trace.entered("cudaMalloc"), 1u);
  EXPECT_EQ(trace.value(trace.of("cudaMalloc", format::kEnter)[0], "bytes"), 1u);
  EXPECT_GE(trace.stats.at("second-copy"), 1u);
}

// Copies a library, and everything in it that says `from` says `to`.
void copy_renamed(const std::string& source, const std::string& target, const std::string& from,
                  const std::string& to) {
  std::string bytes = preload::read_whole(source);
  for (size_t at = bytes.find(from); at != std::string::npos; at = bytes.find(from, at)) {
    bytes.replace(at, from.size(), to);
  }
  std::ofstream(target, std::ios::binary) << bytes;
}

// Another version of the runtime, with a library that is linked to it, beside the usual one.
ROLE(two_versions) {
  const std::string& folder = arguments.at(0);
  const std::string user = folder + "/libuser.so";
  void* const first = dlopen(fixture("through_plt").c_str(), RTLD_NOW | RTLD_LOCAL);
  Dl_info info;
  dladdr(reinterpret_cast<void*>(dlsym(first, "cudaGetErrorString")), &info);
  copy_renamed(info.dli_fname, folder + "/libcudart.so.99", "libcudart.so.13", "libcudart.so.99");
  copy_renamed(fixture("through_plt"), user, "libcudart.so.13", "libcudart.so.99");
  void* const runtime = dlopen((folder + "/libcudart.so.99").c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const second = dlopen(user.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!runtime || !second) {
    return 1;
  }
  const auto allocate = find<cudaError_t(size_t)>(first, "allocate_and_free");
  const auto allocate_there = find<cudaError_t(size_t)>(second, "allocate_and_free");
  constexpr size_t kTooMuch = size_t{1} << 60;
  return allocate(10) == cudaSuccess && allocate_there(20) == cudaSuccess &&
                 allocate_there(kTooMuch) == cudaErrorMemoryAllocation &&
                 find<cudaError_t()>(first, "last_error")() == cudaSuccess &&
                 find<cudaError_t()>(second, "last_error")() == cudaErrorMemoryAllocation
             ? 0
             : 2;
}

TEST(Doors, EachCallerReachesItsOwnVersion) {
  EXPECT_EQ(run_role("two_versions").trace.entered("cudaMalloc"), 3u);
}

// Two of cuBLAS, out of sight of all but those that are linked to them: what one has made means
// nothing to the other.  The second is first called by a function that nobody has called in the
// first.
ROLE(two_of_cublas) {
  const std::string& folder = arguments.at(0);
  void* libraries[2];
  void* users[2];
  for (int i = 0; i < 2; ++i) {
    const std::string name = i == 0 ? "libcublas.so.010" : "libcublas.so.011";
    const std::filesystem::path library = std::filesystem::path(folder) / name;
    const std::filesystem::path user =
        std::filesystem::path(folder) / (i == 0 ? "libuser0.so" : "libuser1.so");
    copy_renamed(fixture("own_cublas"), library, "libown_cublas.so", name);
    copy_renamed(fixture("multiplies"), user, "libown_cublas.so", name);
    libraries[i] = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    users[i] = dlopen(user.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  for (const auto& [user, function] :
       {std::pair(0, "multiply"), {1, "multiply_otherwise"}, {1, "multiply"}, {1, "multiply"}}) {
    find<int()>(users[user], function)();
  }
  std::printf("%d %d", find<int()>(libraries[0], "own_calls")(),
              find<int()>(libraries[1], "own_calls")());
  return 0;
}

TEST(Doors, EachCallerReachesItsOwnCublas) {
  const Folder folder;
  preload::Program program = preload::self("two_of_cublas", {folder.path()});
  program.environment = {{"TRAINTRACE_DIR", folder.path() + "/traces"}};
  for (const bool traced : {false, true}) {
    program.traced = traced;
    const Outcome outcome = preload::run(program);
    EXPECT_TRUE(outcome.exited_with(0)) << outcome.errors;
    EXPECT_EQ(outcome.output, "1 3") << traced;
  }
}

// Who calls by a sibling call is not seen, and the library has another name than the vendor's: it
// is found all the same.
ROLE(sibling) {
  const std::filesystem::path folder = arguments.at(0);
  const std::string name = "libcublas-d0.so1";
  copy_renamed(fixture("own_cublas"), folder / name, "libown_cublas.so", name);
  copy_renamed(fixture("multiplies"), folder / "libuser.so", "libown_cublas.so", name);
  void* const library = dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const user = dlopen((folder / "libuser.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  return find<int()>(user, "multiply_as_sibling")() == 0 && find<int()>(library, "own_calls")() == 1
             ? 0
             : 1;
}

TEST(Doors, SiblingCallsReachARenamedCublas) {
  const Folder folder;
  preload::Program program = preload::self("sibling", {folder.path()});
  program.environment = {{"TRAINTRACE_DIR", folder.path() + "/traces"}};
  EXPECT_TRUE(preload::run(program).exited_with(0));
}

// Where no library has a function, the answer is what it would be without us.
ROLE(nowhere) {
  dlerror();
  const bool absent = !dlsym(RTLD_DEFAULT, "cudaMalloc") && dlerror() &&
                      !dlsym(RTLD_NEXT, "ncclAllReduce") && dlerror() &&
                      !dlsym(dlopen(nullptr, RTLD_NOW), "cuMemAlloc_v2") && dlerror() &&
                      !dlsym(dlopen("libc.so.6", RTLD_NOW), "cudaMalloc") && dlerror() &&
                      !dlvsym(RTLD_DEFAULT, "cudaMalloc", "libcudart.so.13") && dlerror();
  dlerror();
  const bool present = dlsym(RTLD_DEFAULT, "qsort") && !dlerror();
  return absent && present ? 0 : 1;
}

TEST(Doors, NobodyIsToldOfFunctionsThatAreNotThere) {
  const Folder folder;
  preload::Program program = preload::self("nowhere");
  program.environment = {{"TRAINTRACE_DIR", folder.path() + "/traces"}};
  EXPECT_TRUE(preload::run(program).exited_with(0));
  EXPECT_EQ(folder.files(), std::vector<std::string>());
  program.traced = false;
  EXPECT_TRUE(preload::run(program).exited_with(0));
}

// Called all the same, such a function says so by its library's own code.
ROLE(missing) {
  const auto all_fail = find<bool()>(dlopen(fixture("missing").c_str(), RTLD_LAZY), "all_fail");
  return all_fail && all_fail() ? 0 : 1;
}

TEST(Doors, CallsToNowhereFail) {
  const Folder folder;
  preload::Program program = preload::self("missing");
  program.environment = {{"TRAINTRACE_DIR", folder.path() + "/traces"}};
  EXPECT_TRUE(preload::run(program).exited_with(0));
  EXPECT_EQ(folder.files(), std::vector<std::string>());
}

}  // namespace
