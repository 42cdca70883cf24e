#include "analyzer/importers/flight_recorder.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <thread>

#include "analyzer/importers/json_value.h"
#include "analyzer/importers/pickle.h"
#include "analyzer/importers/whole_file.h"
#include "analyzer/model/launch_facts.h"

namespace traintrace {
namespace {

struct NumberInName {
  size_t begin = 0;
  size_t end = 0;
  int value = 0;
  bool named = false;  // "rank" is before it
};

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

bool says_rank(std::string_view before) {
  while (!before.empty() && (before.back() == '_' || before.back() == '-' || before.back() == '=' ||
                             before.back() == '.')) {
    before.remove_suffix(1);
  }
  constexpr std::string_view kWord = "rank";
  return before.size() >= kWord.size() &&
         std::equal(kWord.begin(), kWord.end(), before.end() - kWord.size(), [](char a, char b) {
           return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
         });
}

// Behind the word "rank" first, then from the last to the first.
std::vector<NumberInName> numbers_in(std::string_view name) {
  std::vector<NumberInName> numbers;
  for (size_t at = 0; at < name.size();) {
    if (name[at] < '0' || name[at] > '9') {
      ++at;
      continue;
    }
    NumberInName number;
    number.begin = at;
    const auto [end, problem] =
        std::from_chars(name.data() + at, name.data() + name.size(), number.value);
    at = number.end = static_cast<size_t>(end - name.data());
    number.named = says_rank(name.substr(0, number.begin));
    if (problem == std::errc() && number.value < kMostRanks) {
      numbers.push_back(number);
    }
  }
  std::reverse(numbers.begin(), numbers.end());
  std::stable_partition(numbers.begin(), numbers.end(),
                        [](const NumberInName& number) { return number.named; });
  return numbers;
}

// Opened by as many threads as there are processors.
std::vector<std::optional<Result<FlightFile>>> read_all(std::span<const std::string> paths) {
  std::vector<std::optional<Result<FlightFile>>> files(paths.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    ValueArena arena;
    for (size_t i = next++; i < paths.size(); i = next++) {
      files[i] = read_flight_file(paths[i], arena);
    }
  };
  constexpr size_t kMostThreads = 16;
  const size_t threads = std::min({kMostThreads, paths.size() / 4 + 1,
                                   std::max<size_t>(1, std::thread::hardware_concurrency())});
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) {
    others.emplace_back(work);
  }
  work();
  std::for_each(others.begin(), others.end(), [](std::thread& thread) { thread.join(); });
  return files;
}

}  // namespace

std::vector<int> ranks_in_name(const std::string& path) {
  std::vector<int> ranks;
  for (const NumberInName& number : numbers_in(base_name(path))) {
    ranks.push_back(number.value);
  }
  return ranks;
}

std::string name_without_rank(const std::string& path) {
  const std::string_view name = base_name(path);
  std::vector<NumberInName> numbers = numbers_in(name);
  if (!numbers.empty() && numbers[0].named) {
    numbers.resize(1);
  }
  std::string rest = path;  // the numbers come from the last to the first
  for (const NumberInName& number : numbers) {
    rest = rest.substr(0, path.size() - name.size() + number.begin) + '*' +
           rest.substr(path.size() - name.size() + number.end);
  }
  return rest;
}

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

TraceSet read_flight_files(std::span<const std::string> paths) {
  TraceSet set;
  std::map<std::string, std::vector<FlightFile>> jobs;
  std::vector<std::optional<Result<FlightFile>>> files = read_all(paths);
  for (size_t i = 0; i < paths.size(); ++i) {
    if (*files[i]) {
      jobs[name_without_rank(paths[i])].push_back(std::move(**files[i]));
    } else {
      set.errors.push_back(files[i]->error());
    }
  }
  for (auto& [name, job] : jobs) {
    std::vector<ProcessTrace> traces = settle_flight_dumps(std::move(job));
    std::move(traces.begin(), traces.end(), std::back_inserter(set.processes));
  }
  return set;
}

}  // namespace traintrace
