// Dumps of the Flight Recorder, one behind the other with a record separator (0x1e) between them:
// through the whole pipeline.  One alone is that of two ranks.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "analyzer/importers/flight/flight_recorder.h"
#include "analyzer/importers/json_value.h"
#include "analyzer/importers/pickle.h"
#include "tests/fuzz/pipeline.h"

namespace {

using namespace traintrace;

void add_dump(std::string_view bytes, std::vector<FlightFile>& files) {
  const std::string name = "dump_" + std::to_string(files.size());
  ValueArena arena;
  const Result<Value> root =
      looks_like_pickle(bytes) ? read_pickle(bytes, name, arena) : read_json(bytes, name, arena);
  if (!root) {
    return;
  }
  Result<FlightDump> dump = flight_dump(*root, name);
  if (dump) {
    files.push_back({std::move(*dump), 0});
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMostFiles = 16;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::vector<FlightFile> files;
  for (size_t at = 0; at <= bytes.size() && files.size() < kMostFiles;) {
    const size_t end = std::min(bytes.find('\x1e', at), bytes.size());
    add_dump(bytes.substr(at, end - at), files);
    at = end + 1;
  }
  if (files.size() < 2) {
    add_dump(bytes, files);
  }
  FlightSet set = settle_flight_dumps(std::move(files));
  fuzz::run_pipeline(std::move(set.processes));
  return 0;
}
