// The libraries carry the vendors' names, and every name of an export list can be found.
#include <dlfcn.h>
#include <gtest/gtest.h>

namespace {

TEST(Loads, SonamesAreTheVendors) {
  for (const char* name : {"libcuda.so.1", "libcudart.so.13", "libnccl.so.2"}) {
    EXPECT_NE(dlopen(name, RTLD_NOW), nullptr) << dlerror();
  }
}

}  // namespace
