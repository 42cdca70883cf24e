// A run as text (a scenario): through the whole pipeline.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "analyzer/text/dump_parser.h"
#include "tests/fuzz/pipeline.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace traintrace;
  Result<DumpText> dump = parse_dump({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (dump) {
    for (size_t i = 0; i < dump->processes.size(); ++i) {
      dump->processes[i].source = "no such folder/" + std::to_string(i);  // nor any other file
    }
    fuzz::run_pipeline(std::move(dump->processes));
  }
  return 0;
}
