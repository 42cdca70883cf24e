// What NCCL and PyTorch say of themselves: the status of RAS, and logs.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "analyzer/importers/logs/job/elastic_log.h"
#include "analyzer/importers/logs/job/launcher_log.h"
#include "analyzer/importers/logs/job/watchdog_log.h"
#include "analyzer/importers/logs/testimony.h"

namespace {

void check(const traintrace::Result<traintrace::Testimony>& testimony) {
  if (testimony ? testimony->witnesses.size() > 2 * traintrace::kMostWitnesses
                : testimony.error().message.empty()) {
    __builtin_trap();
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace traintrace;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string file = "status";
  if (looks_like_ras(bytes) || (size != 0 && bytes.front() == '{')) {
    check(read_ras(bytes, file));
  } else {
    looks_like_nccl_log(bytes);
    check(read_nccl_log(bytes, file));
    looks_like_watchdog_log(bytes);
    check(read_watchdog_log(bytes, file));
    looks_like_elastic_log(bytes);
    check(read_elastic_log(bytes, file));
    looks_like_launcher_log(bytes);
    check(read_launcher_log(bytes, file).testimony);
  }
  return 0;
}
