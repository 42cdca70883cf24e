#include "analyzer/timeline/steps.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/median.h"

#include <algorithm>
#include <map>
#include <utility>

namespace traintrace {
namespace {

constexpr size_t kMostWork = 1 << 16;

struct Piece {
  int64_t start_ns;
  uint32_t name;
  int32_t device;
};

struct Stream {
  size_t pieces = 0;
  uint32_t first_name = kNoName;
  bool repeats = false;  // there is more than one name, without which any period would do
};

// Of the stream with the most work, copies and all; the newest, if there is very much.
// Empty: nothing but the same over and over.
std::vector<Piece> busiest_stream(const Timeline& timeline) {
  std::map<std::pair<int32_t, int32_t>, Stream> streams;
  for (const GpuWork& work : timeline.work) {
    Stream& stream = streams[{work.device, work.stream}];
    stream.first_name = stream.pieces++ == 0 ? work.name : stream.first_name;
    stream.repeats = stream.repeats || work.name != stream.first_name;
  }
  if (streams.empty()) {
    return {};
  }
  const auto busiest =
      std::max_element(streams.begin(), streams.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second.repeats, a.second.pieces) <
               std::pair(b.second.repeats, b.second.pieces);
      });
  if (!busiest->second.repeats) {
    return {};
  }
  const auto [device, number] = busiest->first;
  std::vector<Piece> pieces;
  for (auto work = timeline.work.rbegin();
       work != timeline.work.rend() && pieces.size() < kMostWork; ++work) {
    if (work->device == device && work->stream == number) {
      pieces.push_back({work->start_ns, work->name, work->device});
    }
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

bool repeats_after(const std::vector<Piece>& pieces, size_t period) {
  const size_t compared = pieces.size() - period;
  size_t differ = 0;
  for (size_t i = 0; i < compared; ++i) {
    differ += pieces[i].name != pieces[i + period].name ? 1 : 0;
    if (differ * kStepsDiffer > compared) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<StepPeriod> find_step_period(const Timeline& timeline) {
  const std::vector<Piece> pieces = busiest_stream(timeline);
  for (size_t period = kShortestPeriod; period * 2 <= pieces.size(); ++period) {
    if (!repeats_after(pieces, period)) {
      continue;
    }
    StepPeriod found;
    found.work = period;
    found.repeats = static_cast<double>(pieces.size()) / static_cast<double>(period);
    found.device = pieces.front().device;
    for (size_t i = 0; i + period <= pieces.size(); i += period) {
      found.starts.push_back(pieces[i].start_ns);
    }
    std::vector<int64_t> lengths;
    for (size_t i = 0; i + period < pieces.size(); ++i) {
      lengths.push_back(pieces[i + period].start_ns - pieces[i].start_ns);
    }
    found.step_ns = upper_median(std::move(lengths));
    return found;
  }
  return std::nullopt;
}

std::vector<int64_t> step_starts_of(const Timeline& timeline) {
  if (!timeline.step_starts.empty()) {
    return timeline.step_starts;
  }
  std::optional<StepPeriod> period = find_step_period(timeline);
  return period ? std::move(period->starts) : std::vector<int64_t>{};
}

int64_t step_number(const Timeline& timeline, size_t index) {
  return index < timeline.step_numbers.size() ? timeline.step_numbers[index]
                                              : static_cast<int64_t>(index);
}

size_t count_steps(const Timeline& timeline) {
  return step_starts_of(timeline).size();
}

}  // namespace traintrace
