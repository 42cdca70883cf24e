// A native trace: read whole, and printed.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/reader/read_trace.h"
#include "analyzer/text/dump_parser.h"
#include "analyzer/text/dump_printer.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace traintrace;
  static const int descriptor = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  if (ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size)) {
    return 0;
  }
  Result<ProcessTrace> trace = read_trace(path, {.events = true});
  if (!trace) {
    return 0;
  }
  std::vector<ProcessTrace> processes;
  processes.push_back(std::move(*trace));
  std::string text;
  print_dump(processes, {}, [&](std::string_view part) { text += part; });
  if (!parse_dump(text, "fuzz")) {
    __builtin_trap();
  }
  return 0;
}
