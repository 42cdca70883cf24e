// The libraries carry the vendors' names and symbol versions, and every name of an export list can
// be found.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace {

struct Library {
  const char* soname;
  const char* list;
};
constexpr Library kLibraries[] = {
    {"libcuda.so.1", "cuda.txt"}, {"libcudart.so.13", "cudart.txt"}, {"libnccl.so.2", "nccl.txt"}};

TEST(Loads, EveryExportedNameIsThere) {
  for (const auto& [soname, list] : kLibraries) {
    void* library = dlopen(soname, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    std::ifstream names(std::string(SIMGPU_EXPORTS_DIR "/") + list);
    int count = 0;
    for (std::string name; names >> name; ++count) {
      EXPECT_NE(dlsym(library, name.c_str()), nullptr) << soname << ": " << name;
    }
    EXPECT_GT(count, 100) << list;
  }
}

TEST(Loads, OnlyTheRuntimeHasSymbolVersions) {
  void* runtime = dlopen("libcudart.so.13", RTLD_NOW);
  EXPECT_NE(dlvsym(runtime, "cudaMalloc", "libcudart.so.13"), nullptr) << dlerror();
  EXPECT_EQ(dlvsym(runtime, "cudaMalloc", "libcudart.so.12"), nullptr);
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  EXPECT_EQ(dlvsym(driver, "cuInit", "libcuda.so.1"), nullptr);
}

TEST(Loads, WhatIsNotExportedCannotBeFound) {
  for (const Library& library : kLibraries) {
    EXPECT_EQ(dlsym(dlopen(library.soname, RTLD_NOW), "simgpu_unsupported"), nullptr)
        << library.soname;
  }
}

}  // namespace
