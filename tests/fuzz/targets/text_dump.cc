// A text dump: read, and what was read printed as text that can be read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "analyzer/text/dump_parser.h"
#include "analyzer/text/dump_printer.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace traintrace;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Result<DumpText> dump = parse_dump(bytes, "fuzz");
  if (!dump) {
    return dump.error().message.empty() ? __builtin_trap(), 0 : 0;
  }
  std::string text;
  print_dump(dump->processes, {}, [&](std::string_view part) { text += part; });
  if (!parse_dump(text, "fuzz")) {
    __builtin_trap();
  }
  return 0;
}
