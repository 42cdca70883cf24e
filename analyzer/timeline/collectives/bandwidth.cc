#include "analyzer/timeline/collectives/bandwidth.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/timeline/collectives/collective_note.h"
#include "analyzer/timeline/median.h"

namespace traintrace {
namespace {

enum class Pattern : uint8_t { kUnknown, kAllReduce, kShared, kOneWay };

// "ncclAllReduce", "allreduce", "_reduce_scatter_base", "all_to_allv": the same letters.
std::string letters_of(std::string_view operation) {
  std::string letters;
  for (const char c : operation) {
    if (c >= 'A' && c <= 'Z') {
      letters.push_back(static_cast<char>(c - 'A' + 'a'));
    } else if (c >= 'a' && c <= 'z') {
      letters.push_back(c);
    }
  }
  return letters;
}

Pattern pattern_of(std::string_view operation) {
  const std::string letters = letters_of(operation);
  const auto has = [&](const char* part) { return letters.find(part) != letters.npos; };
  if (has("allreduce")) {
    return Pattern::kAllReduce;
  }
  if (has("reducescatter") || has("allgather") || has("alltoall") || has("gather") ||
      has("scatter")) {
    return Pattern::kShared;
  }
  return has("broadcast") || has("reduce") || has("send") || has("recv") ? Pattern::kOneWay
                                                                         : Pattern::kUnknown;
}

// What a rank puts in, as NCCL's tests count it: of operations whose ranks have different parts,
// all parts together.  NCCL's own calls count one part, PyTorch all that goes in.
int64_t counted_bytes(std::string_view operation, int64_t bytes, int ranks) {
  const std::string letters = letters_of(operation);
  const bool is_ncclcall = operation.starts_with("nccl");
  const bool of_one_part = pattern_of(operation) == Pattern::kShared &&
                           (is_ncclcall || letters.find("allgather") != letters.npos);
  int64_t all = bytes;
  if (bytes < 0 || (of_one_part && (ranks <= 0 || __builtin_mul_overflow(bytes, ranks, &all)))) {
    return -1;
  }
  return all;
}

struct SpeedKey {
  std::string operation, group;
  int ranks;
  int64_t bytes;
  bool without_waiting;
  auto operator<=>(const SpeedKey&) const = default;  // NOLINT(modernize-use-nullptr)
};

SpeedKey speed_key_of(const Timeline& timeline, const GpuWork& work) {
  const CollectiveNote* const note = collective_note(timeline, work.correlation);
  if (note == nullptr || note->operation == kNoName) {
    return {timeline.names[work.name], "", -1, -1, false};
  }
  const std::string& operation = timeline.names[note->operation];
  return {operation, note->group == kNoName ? "" : timeline.names[note->group], note->group_size,
          counted_bytes(operation, note->bytes, note->group_size), false};
}

class Speeds {
 public:
  explicit Speeds(std::span<const Timeline> timelines)
      : timelines_(timelines), joined_(timelines.size()) {}

  // Each collective once, with what it takes from the last arrival on.
  void add(const Arrivals& arrivals) {
    if (!arrivals.usable() || arrivals.by_host) {
      return;
    }
    const Timeline& first = timelines_[arrivals.members.front()];
    std::map<uint64_t, const GpuWork*> works;
    for (const GpuWork& work : first.work) {
      works.try_emplace(work.correlation, &work);
    }
    for (const Arrival& arrival : arrivals.list) {
      const auto work = works.find(arrival.correlation.front());
      if (!arrival.is_known() || work == works.end()) {
        continue;
      }
      for (size_t i = 0; i < arrivals.members.size(); ++i) {
        joined_[arrivals.members[i]].insert(arrival.correlation[i]);
      }
      SpeedKey key = speed_key_of(first, *work->second);
      key.without_waiting = true;
      times_[std::move(key)].push_back(arrival.transfer_ns());
    }
  }
  void add_alone(size_t index) {
    const Timeline& timeline = timelines_[index];
    for (const GpuWork& work : timeline.work) {
      if (work.kind == WorkKind::kCommunication && !joined_[index].contains(work.correlation)) {
        times_[speed_key_of(timeline, work)].push_back(work.end_ns - work.start_ns);
      }
    }
  }
  std::vector<CollectiveSpeed> result() {
    std::vector<std::pair<int64_t, CollectiveSpeed>> all;
    for (auto& [key, times] : times_) {
      int64_t sum = 0;
      for (const int64_t ns : times) {
        sum += ns;
      }
      const auto count = static_cast<int64_t>(times.size());
      all.push_back({sum,
                     {key.operation, key.group, key.ranks, key.bytes, count, upper_median(times),
                      key.without_waiting}});
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<CollectiveSpeed> speeds;
    speeds.reserve(all.size());
    for (auto& [sum, speed] : all) {
      speeds.push_back(std::move(speed));
    }
    return speeds;
  }

 private:
  std::span<const Timeline> timelines_;
  std::vector<std::set<uint64_t>> joined_;  // of each timeline, correlations
  std::map<SpeedKey, std::vector<int64_t>> times_;
};

}  // namespace

std::optional<double> CollectiveSpeed::algorithm_gbps() const {
  if (bytes < 0 || median_ns <= 0) {
    return std::nullopt;
  }
  return static_cast<double>(bytes) / static_cast<double>(median_ns);
}

std::optional<double> CollectiveSpeed::bus_gbps() const {
  const std::optional<double> speed = algorithm_gbps();
  const Pattern pattern = pattern_of(operation);
  if (!speed || pattern == Pattern::kUnknown || (pattern != Pattern::kOneWay && ranks <= 0)) {
    return std::nullopt;
  }
  const double others = pattern == Pattern::kOneWay ? 1 : static_cast<double>(ranks - 1) / ranks;
  return *speed * (pattern == Pattern::kAllReduce ? 2 * others : others);
}

std::vector<CollectiveSpeed> collective_speeds(std::span<const Timeline> timelines,
                                               const std::vector<Arrivals>& groups) {
  Speeds speeds(timelines);
  for (const Arrivals& arrivals : groups) {
    speeds.add(arrivals);
  }
  for (size_t i = 0; i < timelines.size(); ++i) {
    speeds.add_alone(i);
  }
  return speeds.result();
}

}  // namespace traintrace
