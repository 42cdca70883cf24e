#include "analyzer/timeline/steps.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/median.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
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

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kNothingYet = std::numeric_limits<int64_t>::min();

// What was launched within one step, or before the first.
struct LaunchedWork {
  int64_t first_start = kNever;       // on any stream
  int64_t main_first_start = kNever;  // on the one that computes
  int64_t last_end = kNothingYet;
};

// That on which the GPU computes for longest: work of other streams may run a step or more ahead of
// it, as the copy of a batch that is fetched early.  None: the GPU computes nothing.
std::optional<int32_t> main_stream(const Timeline& timeline, int32_t device) {
  std::map<int32_t, int64_t> computed_ns;
  for (const GpuWork& work : timeline.work) {
    if (work.device == device && work.kind == WorkKind::kCompute) {
      computed_ns[work.stream] += work.end_ns - work.start_ns;
    }
  }
  const auto most =
      std::max_element(computed_ns.begin(), computed_ns.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == computed_ns.end() ? std::nullopt : std::optional(most->first);
}

// For each mark; what was launched before the first comes first.  Empty: no launch is known.
std::vector<LaunchedWork> launched_by_step(const Timeline& timeline, int32_t device) {
  std::unordered_map<uint64_t, int64_t> launched;
  for (const HostCall& call : timeline.calls) {
    if (call.correlation != 0) {
      launched.try_emplace(call.correlation, call.start_ns);
    }
  }
  const std::optional<int32_t> main = main_stream(timeline, device);
  const std::vector<int64_t>& marks = timeline.step_starts;
  std::vector<LaunchedWork> steps(marks.size() + 1);
  bool any = false;
  for (const GpuWork& work : timeline.work) {
    const auto launch = launched.find(work.correlation);
    if (work.device != device || launch == launched.end()) {
      continue;
    }
    any = true;
    const auto after = std::upper_bound(marks.begin(), marks.end(), launch->second);
    LaunchedWork& step = steps[static_cast<size_t>(after - marks.begin())];
    step.first_start = std::min(step.first_start, work.start_ns);
    step.last_end = std::max(step.last_end, work.end_ns);
    if (!main || work.stream == *main) {
      step.main_first_start = std::min(step.main_first_start, work.start_ns);
    }
  }
  return any ? steps : std::vector<LaunchedWork>{};
}

// For each step the first start within it or a later one.
std::vector<int64_t> next_starts(const std::vector<LaunchedWork>& steps,
                                 int64_t LaunchedWork::*start) {
  std::vector<int64_t> next(steps.size());
  int64_t first = kNever;
  for (size_t i = steps.size(); i-- > 0;) {
    first = std::min(first, steps[i].*start);
    next[i] = first;
  }
  return next;
}

}  // namespace

std::vector<int64_t> steps_on_device(const Timeline& timeline, int32_t device) {
  std::vector<int64_t> starts = step_starts_of(timeline);
  if (timeline.step_starts.empty() || timeline.by_host) {
    return starts;
  }
  const std::vector<LaunchedWork> steps = launched_by_step(timeline, device);
  if (steps.empty()) {
    return starts;
  }
  const std::vector<int64_t> next = next_starts(steps, &LaunchedWork::first_start);
  const std::vector<int64_t> next_main = next_starts(steps, &LaunchedWork::main_first_start);
  int64_t done = kNothingYet;  // all of the steps before
  for (size_t i = 0; i < starts.size(); ++i) {
    done = std::max(done, steps[i].last_end);
    const int64_t begins = done == kNothingYet ? next[i + 1] : next_main[i + 1];
    if (begins == kNever) {
      starts[i] = std::max(starts[i], done);  // nothing more was launched
    } else if (done == kNothingYet || begins <= done) {
      starts[i] = begins;
    } else {
      starts[i] = std::clamp(starts[i], done, begins);
    }
    starts[i] = i == 0 ? starts[i] : std::max(starts[i], starts[i - 1]);
  }
  return starts;
}

std::vector<int64_t> unmarked_steps(const Timeline& timeline, int32_t device,
                                    const std::vector<int64_t>& marked) {
  if (timeline.step_starts.empty() || timeline.by_host || marked.size() < 2) {
    return {};
  }
  const std::vector<Piece> pieces = busiest_stream(timeline);
  if (pieces.empty() || pieces.front().device != device) {
    return {};
  }
  const auto place_of = [&](int64_t time) {
    const auto found =
        std::lower_bound(pieces.begin(), pieces.end(), time,
                         [](const Piece& piece, int64_t begin) { return piece.start_ns < begin; });
    return static_cast<size_t>(found - pieces.begin());
  };
  // From the first piece of each marked step to that of the next one.
  std::vector<int64_t> counts;
  for (size_t i = 1; i < marked.size(); ++i) {
    counts.push_back(static_cast<int64_t>(place_of(marked[i]) - place_of(marked[i - 1])));
  }
  const auto period = static_cast<size_t>(upper_median(std::move(counts)));
  size_t first = place_of(marked.front());
  if (period < kShortestPeriod || first < period || !repeats_after(pieces, period)) {
    return {};
  }
  std::vector<int64_t> starts;
  for (; first >= period; first -= period) {
    starts.push_back(pieces[first - period].start_ns);
  }
  std::reverse(starts.begin(), starts.end());
  return starts;
}

int64_t step_number(const Timeline& timeline, size_t index) {
  return index < timeline.step_numbers.size() ? timeline.step_numbers[index]
                                              : static_cast<int64_t>(index);
}

size_t count_steps(const Timeline& timeline) {
  return step_starts_of(timeline).size();
}

}  // namespace traintrace
