// What the programs of this folder have in common.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "common/check.h"
#include "common/check_driver.h"

inline CUfunction g_kernel;

inline void launch() {
  CU_CHECK(cuLaunchKernel(g_kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
}

// A figure that the finding must have.
inline void say(const char* key, size_t value) {
  printf("%s %zu\n", key, value);
}

inline int own_rank() {
  const char* const rank = getenv("LOCAL_RANK");
  return rank != nullptr ? atoi(rank) : 0;
}

using Cases = std::map<std::string, std::function<void()>>;

inline int run_case(const Cases& cases, int argc, char** argv) {
  CHECK(argc == 3 && cases.contains(argv[1]), "usage: PROGRAM NAME exit|_exit");
  CUDA_CHECK(cudaSetDevice(own_rank()));
  CUDA_CHECK(cudaFree(nullptr));
  CUmodule module = nullptr;
  CU_CHECK(cuModuleLoadData(&module, "no image of any kind, but long enough to look at its start"));
  CU_CHECK(cuModuleGetFunction(&g_kernel, module, "work"));
  cases.at(argv[1])();
  CUDA_CHECK(cudaDeviceSynchronize());
  fflush(stdout);
  if (std::string(argv[2]) == "_exit") {
    _exit(0);
  }
  return 0;
}
