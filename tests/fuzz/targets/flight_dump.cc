// A file of another tool, as pickle or JSON: read, and made a run's processes of.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "analyzer/importers/flight/flight_recorder.h"
#include "analyzer/importers/json_value.h"
#include "analyzer/importers/pickle.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace traintrace;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string file = "dump_3";
  ValueArena arena;
  const Result<Value> root =
      looks_like_pickle(bytes) ? read_pickle(bytes, file, arena) : read_json(bytes, file, arena);
  if (!root) {
    return root.error().message.empty() ? __builtin_trap(), 0 : 0;
  }
  Result<FlightDump> dump = flight_dump(*root, file);
  if (dump) {
    std::vector<FlightFile> files;
    files.push_back({std::move(*dump), 0});
    settle_flight_dumps(std::move(files));
  }
  return 0;
}
