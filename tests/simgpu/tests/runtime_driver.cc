// How the runtime reaches the driver: the exact requests, entry points for programs, several
// runtimes in one process.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <fstream>
#include <sstream>

#include "runtime_support.h"

extern "C" {
cudaError_t cudaGetDriverEntryPoint_ptsz(const char*, void**, unsigned long long,
                                         cudaDriverEntryPointQueryResult*);
}

// Some of the functions tested here are deprecated, and exported all the same.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

const bool g_alone = (be_alone(), true);

std::string read_file(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> with_fake_driver(const std::string& log) {
  return {"LD_PRELOAD=" + own_folder() + "/runtime_fixtures/libcuda.so.1", "SIMGPU_FAKE_LOG=" + log,
          "ASAN_OPTIONS=verify_asan_link_order=0"};
}

TEST(Requests, DISABLED_Load) {
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(cudaFree(nullptr), cudaErrorNoDevice);
}

TEST(Requests, AreThoseOfTheRealRuntime) {
  const std::string log = own_folder() + "/runtime_requests.log";
  unlink(log.c_str());
  ASSERT_EQ(run_again("Requests.DISABLED_Load", with_fake_driver(log)), 0);
  const std::string expected = read_file(SIMGPU_EXPORTS_DIR "/../tests/runtime_requests.txt");
  ASSERT_GT(expected.size(), 10000u);
  EXPECT_EQ(read_file(log), "dlsym(cuGetProcAddress_v2)\n" + expected);
  unlink(log.c_str());
}

TEST(Requests, DISABLED_NoDriver) {
  int count = 7, version = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInsufficientDriver);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorInsufficientDriver);
  RT_OK(cudaDriverGetVersion(&version));
  EXPECT_EQ(version, 0);
}

TEST(Requests, WithoutADriver) {
  std::vector<std::string> settings = with_fake_driver("/dev/null");
  settings.push_back("SIMGPU_FAKE_MISSING=1");
  EXPECT_EQ(run_again("Requests.DISABLED_NoDriver", settings), 0);
}

TEST(EntryPoints, LeadToTheDriver) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult answer = cudaDriverEntryPointSymbolNotFound;
  RT_OK(cudaGetDriverEntryPointByVersion("cuDeviceGetCount", &function, 12000, cudaEnableDefault,
                                         &answer));
  EXPECT_EQ(answer, cudaDriverEntryPointSuccess);
  ASSERT_NE(function, nullptr);
  int count = 0;
  EXPECT_EQ(reinterpret_cast<PFN_cuDeviceGetCount_v2000>(function)(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2);
}

TEST(EntryPoints, UnknownNamesAreNoFailure) {
  void* function = &function;
  cudaDriverEntryPointQueryResult answer = cudaDriverEntryPointSuccess;
  RT_OK(cudaGetDriverEntryPoint("cuNoSuchFunction", &function, cudaEnableDefault, &answer));
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(answer, cudaDriverEntryPointSymbolNotFound);
  RT_OK(cudaGetDriverEntryPointByVersion("cuMemcpyBatchAsync", &function, 12000, cudaEnableDefault,
                                         &answer));
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(answer, cudaDriverEntryPointVersionNotSufficent);
  EXPECT_EQ(cudaGetDriverEntryPoint(nullptr, &function, 0, &answer), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetDriverEntryPoint("cuInit", &function, 77, &answer), cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST(EntryPoints, FollowTheDefaultStreamOfTheCaller) {
  void *legacy = nullptr, *own = nullptr, *plain = nullptr, *plain_own = nullptr;
  RT_OK(cudaGetDriverEntryPoint("cuStreamQuery", &legacy, cudaEnableLegacyStream, nullptr));
  RT_OK(cudaGetDriverEntryPoint("cuStreamQuery", &own, cudaEnablePerThreadDefaultStream, nullptr));
  RT_OK(cudaGetDriverEntryPoint("cuStreamQuery", &plain, cudaEnableDefault, nullptr));
  RT_OK(cudaGetDriverEntryPoint_ptsz("cuStreamQuery", &plain_own, cudaEnableDefault, nullptr));
  EXPECT_NE(legacy, own);
  EXPECT_EQ(plain, legacy);
  EXPECT_EQ(plain_own, own);
}

// A library that carries the static runtime.
class StaticCopy : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = own_folder() + "/runtime_fixtures/libsimgpu_static_copy.so";
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  template <class F>
  F* get(const char* name) {
    return reinterpret_cast<F*>(dlsym(library_, name));
  }
  void* library_ = nullptr;
};

TEST_F(StaticCopy, HasItsOwnCodeAndState) {
  EXPECT_EQ(dlsym(library_, "cudaMalloc"), nullptr);
  EXPECT_NE(get<void*()>("copy_address_of_malloc")(), dlsym(RTLD_DEFAULT, "cudaMalloc"));
  EXPECT_EQ(get<int(int)>("copy_set_device")(99), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(nullptr, 1), cudaErrorInvalidValue);
  EXPECT_EQ(get<int()>("copy_last_error")(), cudaErrorInvalidDevice);
  EXPECT_EQ(get<int()>("copy_last_error")(), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(StaticCopy, SharesTheDriver) {
  RT_OK(cudaSetDevice(1));
  size_t before = 0, after = 0, total = 0;
  RT_OK(cudaMemGetInfo(&before, &total));
  void* memory = nullptr;
  // The other runtime works in the context that this one made current.
  ASSERT_EQ(get<int(void**, size_t)>("copy_malloc")(&memory, 1 << 20), cudaSuccess);
  RT_OK(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(before - after, size_t{1} << 20);
  cudaPointerAttributes attributes;
  RT_OK(cudaPointerGetAttributes(&attributes, memory));
  EXPECT_EQ(attributes.device, 1);
  cudaStream_t stream;
  RT_OK(cudaStreamCreate(&stream));
  ASSERT_EQ(get<int(void*, int, size_t, cudaStream_t)>("copy_memset")(memory, 6, 16, stream), 0);
  RT_OK(cudaStreamSynchronize(stream));
  unsigned char back[16];
  RT_OK(cudaMemcpy(back, memory, 16, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back[15], 6);
  ASSERT_EQ(get<int(void*)>("copy_free")(memory), cudaSuccess);
  RT_OK(cudaStreamDestroy(stream));
  RT_OK(cudaSetDevice(0));
}

}  // namespace
