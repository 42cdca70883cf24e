// A snapshot of PyTorch's memory or a log of RMM: through the whole pipeline.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "analyzer/importers/memory/rmm_csv.h"
#include "analyzer/importers/memory/torch_snapshot.h"
#include "analyzer/importers/pickle.h"
#include "tests/fuzz/pipeline.h"

namespace {

using namespace traintrace;

void judge(Result<ProcessTrace> trace) {
  if (trace) {
    ProcessTrace twin = fuzz::twin_of(*trace);
    fuzz::run_pipeline({std::move(*trace), std::move(twin)});
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!looks_like_pickle(bytes)) {
    judge(rmm_csv_trace(bytes, "snapshot_3", 1'700'000'000'000'000'000));
    return 0;
  }
  ValueArena arena;
  const Result<Value> root = read_pickle(bytes, "snapshot_3", arena);
  if (root) {
    judge(torch_snapshot_trace(*root, "snapshot_3"));
  }
  return 0;
}
