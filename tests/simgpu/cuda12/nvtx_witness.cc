// Another injection library of NVTX (TRAINTRACE_NVTX_NEXT): what PyTorch calls, a line each in the
// file NVTX_WITNESS.PID, so that tests/torch/compare_ranges.py has something to compare a trace
// with.
#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::FILE* log_file() {
  static std::FILE* const file = [] {
    const char* const prefix = std::getenv("NVTX_WITNESS");
    return prefix == nullptr
               ? nullptr
               : std::fopen((std::string(prefix) + "." + std::to_string(getpid())).c_str(), "we");
  }();
  return file;
}

// One write for each line: threads do not mix them.
void note(const char* what, const char* text) {
  if (std::FILE* const file = log_file()) {
    std::fprintf(file, "%ld %s %s\n", syscall(SYS_gettid), what, text);
    std::fflush(file);
  }
}

int push(const char* text) {
  note("push", text);
  return 0;
}
int pop() {
  note("pop", "");
  return 0;
}
void mark(const char* text) {
  note("mark", text);
}
nvtxRangeId_t start(const char* text) {
  note("start", text);
  static nvtxRangeId_t last = 0;
  return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

template <class Function>
void put(NvtxFunctionTable table, int number, Function* function) {
  *table[number] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

// As NVTX looks for it.  NOLINTNEXTLINE(readability-identifier-naming)
extern "C" [[gnu::visibility("default")]] int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable core = nullptr;
  unsigned size = 0;
  callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size);
  put(core, NVTX_CBID_CORE_RangePushA, push);
  put(core, NVTX_CBID_CORE_RangePop, pop);
  put(core, NVTX_CBID_CORE_MarkA, mark);
  put(core, NVTX_CBID_CORE_RangeStartA, start);
  return 1;
}
