// Launches of registered kernels, their attributes, variables, modules.
#include <cuda.h>
#include <simgpu.h>

#include <cstring>
#include <numeric>

#include "runtime_support.h"

extern "C" {
cudaError_t cudaLaunchKernel_ptsz(const void*, dim3, dim3, void**, size_t, cudaStream_t);
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t*, const void*, void**);
}

namespace {

const bool g_alone = (be_alone(), true);

// Their addresses stand for kernels and variables, as those of nvcc's host stubs do.
char g_add, g_unknown, g_unregistered;
int g_counter;
int g_table[8];
int* g_managed;

struct Last {
  dim3 grid, block;
  unsigned shared_bytes = 0;
  int device = -1;
} g_last;

void add(simgpu::Grid launch, int* memory, int value, int count) {
  g_last = {dim3(launch.grid[0], launch.grid[1], launch.grid[2]),
            dim3(launch.block[0], launch.block[1], launch.block[2]), launch.shared_bytes,
            launch.device};
  for (int i = 0; i < count; ++i) {
    memory[i] += value;
  }
}

class Launches : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    simgpu::kernel("add", &add);
    static Module& module = *new Module;
    module.kernel(&g_add, "add")
        .variable(&g_counter, "counter", sizeof g_counter)
        .variable(g_table, "table", sizeof g_table)
        .managed(reinterpret_cast<void**>(&g_managed), "managed", sizeof(int))
        .end();
    test_module = &module;
  }
  void SetUp() override {
    RT_OK(cudaSetDevice(0));
    RT_OK(cudaMalloc(reinterpret_cast<void**>(&memory_), 16 * sizeof(int)));
    RT_OK(cudaMemset(memory_, 0, 16 * sizeof(int)));
  }
  void TearDown() override {
    RT_OK(cudaFree(memory_));
    (void)cudaGetLastError();
  }
  int first() const {
    int value = -1;
    EXPECT_EQ(cudaMemcpy(&value, memory_, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
    return value;
  }

  static inline Module* test_module = nullptr;
  int* memory_ = nullptr;
  int value_ = 3;
  int count_ = 16;
  void* arguments_[3] = {&memory_, &value_, &count_};
};

TEST_F(Launches, PassArgumentsAndShape) {
  RT_OK(cudaLaunchKernel(&g_add, dim3(2, 3), dim3(4, 5, 6), arguments_, 256, nullptr));
  RT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(first(), 3);
  EXPECT_EQ(g_last.grid.y, 3u);
  EXPECT_EQ(g_last.block.z, 6u);
  EXPECT_EQ(g_last.shared_bytes, 256u);
  EXPECT_EQ(g_last.device, 0);
}

TEST_F(Launches, ArgumentsAreReadAtTheCall) {
  cudaStream_t stream;
  RT_OK(cudaStreamCreate(&stream));
  {
    Gate gate(stream);
    RT_OK(cudaLaunchKernel(&g_add, dim3(1), dim3(1), arguments_, 0, stream));
    value_ = 100;
  }
  RT_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(first(), 3);
  RT_OK(cudaStreamDestroy(stream));
}

TEST_F(Launches, ByTheConfigurationStack) {
  EXPECT_EQ(__cudaPushCallConfiguration(dim3(7), dim3(8), 9, cudaStreamPerThread), 0u);
  dim3 grid, block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  RT_OK(__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream));
  EXPECT_EQ(grid.x, 7u);
  EXPECT_EQ(block.x, 8u);
  EXPECT_EQ(shared_bytes, 9u);
  EXPECT_EQ(stream, cudaStreamPerThread);
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream),
            cudaErrorMissingConfiguration);
  cudaKernel_t kernel = nullptr;
  RT_OK(__cudaGetKernel(&kernel, &g_add));
  RT_OK(__cudaLaunchKernel(kernel, grid, block, arguments_, shared_bytes, stream));
  RT_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(first(), 3);
}

TEST_F(Launches, WithAttributesCooperativeAndPerThread) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(2);
  config.blockDim = dim3(32);
  RT_OK(cudaLaunchKernelExC(&config, &g_add, arguments_));
  RT_OK(cudaLaunchKernelExC_ptsz(&config, &g_add, arguments_));
  RT_OK(cudaLaunchCooperativeKernel(&g_add, dim3(1), dim3(1), arguments_, 0, nullptr));
  RT_OK(cudaLaunchKernel_ptsz(&g_add, dim3(1), dim3(1), arguments_, 0, nullptr));
  RT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(first(), 12);
}

TEST_F(Launches, FailAsDocumented) {
  EXPECT_EQ(cudaLaunchKernel(&g_unregistered, dim3(1), dim3(1), arguments_, 0, nullptr),
            cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaLaunchKernel(nullptr, dim3(1), dim3(1), arguments_, 0, nullptr),
            cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaLaunchKernel(&g_add, dim3(1), dim3(4096), arguments_, 0, nullptr),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaLaunchKernel(&g_add, dim3(0), dim3(1), arguments_, 0, nullptr),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  RT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(first(), 0);
}

TEST_F(Launches, OnEachDeviceTheThreadSelects) {
  RT_OK(cudaSetDevice(1));
  int* far = nullptr;
  RT_OK(cudaMalloc(reinterpret_cast<void**>(&far), 16 * sizeof(int)));
  void* arguments[] = {&far, &value_, &count_};
  RT_OK(cudaLaunchKernel(&g_add, dim3(1), dim3(1), arguments, 0, nullptr));
  RT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(g_last.device, 1);
  RT_OK(cudaFree(far));
  RT_OK(cudaSetDevice(0));
}

TEST_F(Launches, HandlesStandForKernels) {
  cudaKernel_t kernel = nullptr;
  cudaFunction_t function = nullptr;
  RT_OK(cudaGetKernel(&kernel, &g_add));
  RT_OK(cudaGetFuncBySymbol(&function, &g_add));
  RT_OK(cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments_, 0, nullptr));
  RT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(first(), 3);
  const char* name = nullptr;
  RT_OK(cudaFuncGetName(&name, &g_add));
  EXPECT_STREQ(name, "add");
}

TEST_F(Launches, KernelsHaveAttributesAndOccupancy) {
  cudaFuncAttributes attributes;
  RT_OK(cudaFuncGetAttributes(&attributes, &g_add));
  EXPECT_GT(attributes.maxThreadsPerBlock, 0);
  EXPECT_GT(attributes.numRegs, 0);
  RT_OK(cudaFuncSetAttribute(&g_add, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
  RT_OK(cudaFuncGetAttributes(&attributes, &g_add));
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, 65536);
  int blocks = 0;
  RT_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &g_add, 256, 0));
  EXPECT_GT(blocks, 0);
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, &g_unregistered), cudaErrorInvalidDeviceFunction);
}

TEST_F(Launches, VariablesByTheirHostAddress) {
  int value = 17, back = 0;
  RT_OK(cudaMemcpyToSymbol(&g_counter, &value, sizeof value, 0, cudaMemcpyHostToDevice));
  RT_OK(cudaMemcpyFromSymbol(&back, &g_counter, sizeof back, 0, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back, 17);
  int table[8], got[4];
  std::iota(table, table + 8, 10);
  RT_OK(cudaMemcpyToSymbolAsync(g_table, table, sizeof table, 0, cudaMemcpyDefault, nullptr));
  RT_OK(cudaMemcpyFromSymbolAsync(got, g_table, sizeof got, 8, cudaMemcpyDeviceToHost, nullptr));
  RT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(got[3], 15);
  size_t bytes = 0;
  RT_OK(cudaGetSymbolSize(&bytes, g_table));
  EXPECT_EQ(bytes, sizeof g_table);
  void* address = nullptr;
  RT_OK(cudaGetSymbolAddress(&address, g_table));
  RT_OK(cudaMemcpy(got, address, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT_EQ(got[0], 10);
  EXPECT_EQ(cudaMemcpyToSymbol(g_table, table, sizeof table, 4, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyToSymbol(g_table, table, 4, 0, cudaMemcpyDeviceToHost),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemcpyToSymbol(&g_unregistered, table, 4, 0, cudaMemcpyHostToDevice),
            cudaErrorInvalidSymbol);
}

TEST_F(Launches, EachDeviceHasItsOwnVariables) {
  int value = 1, back = 0;
  RT_OK(cudaMemcpyToSymbol(&g_counter, &value, sizeof value, 0, cudaMemcpyHostToDevice));
  RT_OK(cudaSetDevice(1));
  value = 2;
  RT_OK(cudaMemcpyToSymbol(&g_counter, &value, sizeof value, 0, cudaMemcpyHostToDevice));
  RT_OK(cudaSetDevice(0));
  RT_OK(cudaMemcpyFromSymbol(&back, &g_counter, sizeof back, 0, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back, 1);
}

TEST_F(Launches, ManagedVariablesAreReachedByTheHost) {
  EXPECT_EQ(test_module->init(), 1);
  ASSERT_NE(g_managed, nullptr);
  *g_managed = 4;
  count_ = 1;
  void* arguments[] = {&g_managed, &value_, &count_};
  RT_OK(cudaLaunchKernel(&g_add, dim3(1), dim3(1), arguments, 0, nullptr));
  RT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(*g_managed, 7);
}

TEST_F(Launches, UnloadedModulesAreForgotten) {
  {
    Module module;
    module.kernel(&g_unknown, "unknown").end();
    RT_OK(cudaLaunchKernel(&g_unknown, dim3(1), dim3(1), nullptr, 0, nullptr));
    RT_OK(cudaDeviceSynchronize());
  }
  EXPECT_EQ(cudaLaunchKernel(&g_unknown, dim3(1), dim3(1), nullptr, 0, nullptr),
            cudaErrorInvalidDeviceFunction);
}

TEST_F(Launches, ManyKernelsAndThreads) {
  static char kernels[3000];
  Module module;
  for (char& kernel : kernels) {
    module.kernel(&kernel, "add");
  }
  module.end();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      int* memory = nullptr;
      EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory), 64), cudaSuccess);
      EXPECT_EQ(cudaMemset(memory, 0, 64), cudaSuccess);
      int value = 1, count = 1, got = 0;
      void* arguments[] = {&memory, &value, &count};
      for (int i = t; i < 3000; i += 4) {
        EXPECT_EQ(cudaLaunchKernel(&kernels[i], dim3(1), dim3(1), arguments, 0, nullptr),
                  cudaSuccess);
      }
      EXPECT_EQ(cudaMemcpy(&got, memory, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
      EXPECT_EQ(got, 750);
      EXPECT_EQ(cudaFree(memory), cudaSuccess);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(Launches, LibrariesByHand) {
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  const char* image = "opaque image, longer than any header that might be read from it .........";
  RT_OK(cudaLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  RT_OK(cudaLibraryGetKernel(&kernel, library, "add"));
  RT_OK(cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments_, 0, nullptr));
  RT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(first(), 3);
  RT_OK(cudaLibraryUnload(library));
}

TEST_F(Launches, GraphsOfKernels) {
  cudaGraph_t graph;
  cudaGraphNode_t node, general;
  RT_OK(cudaGraphCreate(&graph, 0));
  cudaKernelNodeParams params = {};
  params.func = &g_add;
  params.gridDim = dim3(1);
  params.blockDim = dim3(2);
  params.kernelParams = arguments_;
  RT_OK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params));
  cudaKernelNodeParams got = {};
  RT_OK(cudaGraphKernelNodeGetParams(node, &got));
  EXPECT_EQ(got.func, &g_add);
  EXPECT_EQ(got.blockDim.x, 2u);
  cudaGraphNodeParams general_params = {};
  general_params.type = cudaGraphNodeTypeKernel;
  general_params.kernel.func = &g_add;
  general_params.kernel.gridDim = dim3(1);
  general_params.kernel.blockDim = dim3(1);
  general_params.kernel.kernelParams = arguments_;
  RT_OK(cudaGraphAddNode(&general, graph, &node, nullptr, 1, &general_params));
  cudaGraphExec_t exec;
  RT_OK(cudaGraphInstantiate(&exec, graph, 0));
  RT_OK(cudaGraphLaunch(exec, nullptr));
  RT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(first(), 6);
  value_ = 10;
  RT_OK(cudaGraphExecKernelNodeSetParams(exec, node, &params));
  RT_OK(cudaGraphLaunch(exec, nullptr));
  RT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(first(), 19);
  params.func = &g_unregistered;
  EXPECT_EQ(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params),
            cudaErrorInvalidDeviceFunction);
  RT_OK(cudaGraphExecDestroy(exec));
  RT_OK(cudaGraphDestroy(graph));
}

TEST(Loading, DISABLED_Eager) {
  Module module;
  char kernel;
  module.kernel(&kernel, "add").managed(reinterpret_cast<void**>(&g_managed), "m", 4).end();
  EXPECT_EQ(g_managed, nullptr);
  RT_OK(cudaFree(nullptr));  // brings up the context
  EXPECT_EQ(g_managed != nullptr, strcmp(getenv("CUDA_MODULE_LOADING"), "EAGER") == 0);
}

TEST(Loading, IsLazyUnlessToldOtherwise) {
  EXPECT_EQ(run_again("Loading.DISABLED_Eager", {"CUDA_MODULE_LOADING=LAZY"}), 0);
  EXPECT_EQ(run_again("Loading.DISABLED_Eager", {"CUDA_MODULE_LOADING=EAGER"}), 0);
}

}  // namespace
