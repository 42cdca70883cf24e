// Programs with the headers of NVTX 2, whose functions are in a library, libnvToolsExt.so.1: what
// that one of CUDA 12.4 does when it is first called.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <stdlib.h>

#include "support/nvtx_story.h"
#include "support/roles.h"

namespace {

using namespace preload;

// A place for each function; before anybody listens a call goes nowhere.
constexpr unsigned kFunctions = 17;
NvtxFunctionPointer g_functions[2][kFunctions] = {};
NvtxFunctionPointer* g_places[2][kFunctions + 1] = {};
bool g_has_domains = true;  // NVTX 1 had none

int NVTX_API get_module(NvtxCallbackModule module, NvtxFunctionTable* table, unsigned* size) {
  const int which = module == NVTX_CB_MODULE_CORE ? 0 : 1;
  if (module != NVTX_CB_MODULE_CORE && (module != NVTX_CB_MODULE_CORE2 || !g_has_domains)) {
    return 0;
  }
  for (unsigned i = 0; i < kFunctions; ++i) {
    g_places[which][i] = &g_functions[which][i];
  }
  *table = g_places[which];
  *size = kFunctions;
  return 1;
}

const void* NVTX_API get_export(uint32_t id) {
  static const NvtxExportTableCallbacks callbacks = {sizeof callbacks, get_module};
  return id == NVTX_ETID_CALLBACKS ? &callbacks : nullptr;
}

bool is_heard() {
  void* const library = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_LAZY);
  void* const function = library == nullptr ? nullptr : dlsym(library, "InitializeInjectionNvtx2");
  return function != nullptr &&
         reinterpret_cast<int (*)(NvtxGetExportTableFunc_t)>(function)(get_export) != 0;
}

template <class... Arguments>
int call(int module, int number, Arguments... arguments) {
  auto* const function = reinterpret_cast<int (*)(Arguments...)>(g_functions[module][number]);
  return function == nullptr ? -1 : function(arguments...);
}

ROLE(old) {
  g_has_domains = arguments.at(0) == "domains";
  cudaFree(nullptr);
  if (!is_heard()) {
    return 1;
  }
  nvtxEventAttributes_t layer = attributes_of("layers.17");
  layer.version = 2;  // of these attributes
  call<const char*>(0, NVTX_CBID_CORE_RangePushA, "step 7");
  call<const nvtxEventAttributes_t*>(0, NVTX_CBID_CORE_RangePushEx, &layer);
  call<void*, const nvtxEventAttributes_t*>(1, NVTX_CBID_CORE2_DomainRangePushEx, nullptr, &layer);
  return call(0, NVTX_CBID_CORE_RangePop) == NVTX_NO_PUSH_POP_TRACKING ? 0 : 2;
}

TEST(NvtxOld, ALibraryOfNvtx2IsHeard) {
  const RawTrace trace = trace_of("old", {"domains"});
  EXPECT_EQ(story_of_main(trace),
            (Lines{"cudaFree", "> step 7", "> layers.17", "> layers.17", "< layers.17"}));
  EXPECT_EQ(open_of(trace, main_thread(trace)), (Lines{"step 7", "layers.17"}));
}

TEST(NvtxOld, OneWithoutDomainsIsHeardToo) {
  EXPECT_EQ(story_of_main(trace_of("old", {"none"})),
            (Lines{"cudaFree", "> step 7", "> layers.17", "< layers.17"}));
}

}  // namespace
