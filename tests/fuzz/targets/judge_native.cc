// A native trace and one that differs in its rank: through the whole pipeline.
#include <cstddef>
#include <cstdint>

#include "analyzer/reader/read_trace.h"
#include "tests/fuzz/pipeline.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace traintrace;
  static const fuzz::MemoryFile file;
  file.set(data, size);
  Result<ProcessTrace> trace = read_trace(file.path(), {.events = true});
  if (trace) {
    ProcessTrace twin = fuzz::twin_of(*trace);
    fuzz::run_pipeline({std::move(*trace), std::move(twin)});
  }
  return 0;
}
