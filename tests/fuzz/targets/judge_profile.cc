// Traces of PyTorch's profiler, one behind the other with a record separator (0x1e) between them:
// through the whole pipeline.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/pipeline.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace traintrace;
  static const std::array<fuzz::MemoryFile, 4> memory;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> files;
  for (size_t at = 0; at <= bytes.size() && files.size() < memory.size();) {
    const size_t end = std::min(bytes.find('\x1e', at), bytes.size());
    const fuzz::MemoryFile& file = memory[files.size()];
    file.set(bytes.data() + at, end - at);
    files.push_back(file.path());
    at = end + 1;
  }
  fuzz::run_profiles(files);
  return 0;
}
