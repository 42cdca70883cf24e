#include "analyzer/importers/flight/flight_recorder.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "analyzer/importers/json_value.h"
#include "analyzer/importers/pickle.h"
#include "analyzer/importers/whole_file.h"
#include "analyzer/isolation/supervise.h"
#include "analyzer/reader/files/read_stage.h"

namespace traintrace {
namespace {

// Opened by as many threads as there are processors.
std::vector<std::optional<Result<FlightFile>>> read_all(std::span<const std::string> paths) {
  std::vector<std::optional<Result<FlightFile>>> files(paths.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    ValueArena arena;
    for (size_t i = next++; i < paths.size(); i = next++) {
      if (!run_stage("read " + paths[i], [&] { files[i] = read_flight_file(paths[i], arena); })) {
        files[i] = internal_read_error(paths[i]);
      }
    }
  };
  constexpr size_t kMostThreads = 16;
  const size_t cores =
      one_stage_at_a_time() ? 1 : std::max<size_t>(1, std::thread::hardware_concurrency());
  const size_t threads = std::min({kMostThreads, paths.size() / 4 + 1, cores});
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) {
    others.emplace_back(work);
  }
  work();
  std::for_each(others.begin(), others.end(), [](std::thread& thread) { thread.join(); });
  return files;
}

}  // namespace

Result<FlightFile> read_flight_file(const std::string& path, ValueArena& arena) {
  Result<WholeFile> file = read_whole_file(path);
  if (!file) {
    return file.error();
  }
  arena.clear();
  Result<Value> root = looks_like_pickle(file->bytes()) ? read_pickle(file->bytes(), path, arena)
                                                        : read_json(file->bytes(), path, arena);
  if (!root) {
    return root.error();
  }
  Result<FlightDump> dump = flight_dump(*root, path);
  if (!dump) {
    return dump.error();
  }
  return FlightFile{std::move(*dump), file->modified()};
}

FlightSet read_flight_files(std::span<const std::string> paths) {
  std::vector<FlightFile> read;
  std::vector<ReadError> errors;
  for (std::optional<Result<FlightFile>>& file : read_all(paths)) {
    if (*file) {
      read.push_back(std::move(**file));
    } else {
      errors.push_back(file->error());
    }
  }
  FlightSet set = settle_flight_dumps(std::move(read));
  set.unreadable = std::move(errors);
  return set;
}

}  // namespace traintrace
