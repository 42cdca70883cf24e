// A snapshot of PyTorch's memory or a log of RMM: read, and what was read printed as text.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/importers/memory/rmm_csv.h"
#include "analyzer/importers/memory/torch_snapshot.h"
#include "analyzer/importers/pickle.h"
#include "analyzer/text/dump_parser.h"
#include "analyzer/text/dump_printer.h"

namespace {

using namespace traintrace;

void check(Result<ProcessTrace> trace) {
  if (!trace) {
    return trace.error().message.empty() ? __builtin_trap() : void();
  }
  std::vector<ProcessTrace> processes;
  processes.push_back(std::move(*trace));
  std::string text;
  print_dump(processes, {}, [&](std::string_view part) { text += part; });
  if (!parse_dump(text, "fuzz")) {
    __builtin_trap();
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string file = "snapshot_3";
  if (!looks_like_pickle(bytes)) {
    check(rmm_csv_trace(bytes, file, 1'700'000'000'000'000'000));
    return 0;
  }
  ValueArena arena;
  const Result<Value> root = read_pickle(bytes, file, arena);
  if (root) {
    check(torch_snapshot_trace(*root, file));
  }
  return 0;
}
