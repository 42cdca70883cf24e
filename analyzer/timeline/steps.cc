#include "analyzer/timeline/steps.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/median.h"
#include "analyzer/timeline/missing_work.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace traintrace {
namespace {

constexpr size_t kMostWork = 1 << 16;

struct Piece {
  int64_t start_ns;
  uint32_t name;
  int32_t device;
  WorkKind kind;
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
      pieces.push_back({work->start_ns, work->name, work->device, work->kind});
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

// Pieces of a stream from `begin` to before `end`.
struct Run {
  size_t begin, end;
  size_t length() const { return end - begin; }
};

bool is_most(const std::vector<Piece>& pieces, size_t count) {
  return static_cast<double>(count) >= kStepsCover * static_cast<double>(pieces.size());
}

// Whether a few pieces from `at` on come `distance` further on as well.
bool is_followed(const std::vector<Piece>& pieces, size_t at, size_t distance, size_t few) {
  for (size_t i = at; i < at + few; ++i) {
    if (i + distance >= pieces.size() || pieces[i].name != pieces[i + distance].name) {
      return false;
    }
  }
  return true;
}

// What comes before the first piece from which on the work repeats made the model: it is no part of
// the first step, however little it is.
std::vector<size_t> all_steps(const std::vector<Piece>& pieces, size_t period) {
  constexpr size_t kSurely = 32;
  size_t first = 0;
  while (first + 2 * period <= pieces.size() &&
         !is_followed(pieces, first, period, std::min(period, kSurely))) {
    ++first;
  }
  std::vector<size_t> starts;
  for (size_t i = first + 2 * period <= pieces.size() ? first : 0; i + period <= pieces.size();
       i += period) {
    starts.push_back(i);
  }
  return starts;
}

// Whether at most of some places a few pieces come a period earlier or later as well, as at nearly
// all where runs_of() has any: looking at all of them takes long where nothing repeats.  The places
// are at uneven distances: at even ones all may be what comes between.
bool may_have_runs(const std::vector<Piece>& pieces, size_t period) {
  constexpr size_t kLookedAt = 7;
  const size_t few = std::min<size_t>(period, 16);
  size_t same = 0;
  for (size_t i = 1; i <= kLookedAt; ++i) {
    const size_t at = pieces.size() * i * i / ((kLookedAt + 1) * (kLookedAt + 1));
    same += is_followed(pieces, at, period, few) ||
                    (at >= period && is_followed(pieces, at - period, period, few))
                ? 1
                : 0;
  }
  return 2 * same > kLookedAt;
}

// Those in which each piece is followed by the same one a period later, over a period or more.
// Empty: they have too little of all pieces.
std::vector<Run> runs_of(const std::vector<Piece>& pieces, size_t period) {
  std::vector<Run> runs;
  size_t covered = 0;  // up to here
  size_t between = 0;  // of the pieces up to there, in no run
  for (size_t i = 0; i + period < pieces.size();) {
    size_t end = i;
    while (end + period < pieces.size() && pieces[end].name == pieces[end + period].name) {
      ++end;
    }
    if (end - i >= period) {
      const size_t begin = std::max(i, covered);
      between += begin - covered;
      covered = end + period;
      runs.push_back({begin, covered});
    }
    if (!is_most(pieces, pieces.size() - (std::max(i, covered) - covered) - between)) {
      return {};
    }
    i = end + 1;
  }
  between += pieces.size() - covered;
  return is_most(pieces, pieces.size() - between) ? runs : std::vector<Run>{};
}

bool is_same_work(const std::vector<Piece>& pieces, size_t one, size_t other, size_t count) {
  return std::equal(pieces.begin() + static_cast<ptrdiff_t>(one),
                    pieces.begin() + static_cast<ptrdiff_t>(one + count),
                    pieces.begin() + static_cast<ptrdiff_t>(other),
                    [](const Piece& a, const Piece& b) { return a.name == b.name; });
}

// Of a run, each time that all of the step which begins at `body` comes; from the first on.
std::vector<size_t> steps_within(const std::vector<Piece>& pieces, const Run& run, size_t body,
                                 size_t period) {
  std::vector<size_t> starts;
  for (size_t i = run.begin; i < run.begin + period && i + period <= run.end; ++i) {
    if (is_same_work(pieces, body, i, period)) {
      for (; i + period <= run.end; i += period) {
        starts.push_back(i);
      }
      break;
    }
  }
  return starts;
}

// At how many places between steps, before and after all there are kernels that are in no step.
size_t places_of_others(const std::vector<Piece>& pieces, const std::vector<size_t>& starts,
                        size_t period) {
  std::unordered_set<uint32_t> within;
  for (size_t i = starts.front(); i < starts.front() + period; ++i) {
    within.insert(pieces[i].name);
  }
  size_t places = 0;
  size_t steps = 0;  // before a piece
  std::optional<size_t> last;
  for (size_t i = 0; i < pieces.size(); ++i) {
    for (; steps < starts.size() && starts[steps] + period <= i; ++steps) {
    }
    if (pieces[i].kind != WorkKind::kMemory && !within.contains(pieces[i].name) && last != steps) {
      last = steps;
      ++places;
    }
  }
  return places;
}

// What comes again and again on a stream, each time with the same work.
struct Cycle {
  std::vector<size_t> starts;  // of each whole one, in pieces
  size_t places_of_others = 0;
  bool ends_whole = false;  // ends_after_whole_cycles
};

// Whether what comes between comes after whole cycles each time, and not after whole ones of a
// multiple that is long enough for a step: then it is the cycle that something is done after.
bool ends_after_whole_cycles(const std::vector<Run>& runs, size_t period) {
  const size_t longer = (kShortestPeriod + period - 1) / period * period;
  return runs.size() >= kReturns &&
         std::all_of(runs.begin() + 1, runs.end() - 1,
                     [&](const Run& run) { return run.length() % period == 0; }) &&
         std::any_of(runs.begin() + 1, runs.end() - 1,
                     [&](const Run& run) { return run.length() % longer != 0; });
}

// Where a step begins: after what comes between steps.  A recording may begin within one.
size_t first_of_a_step(const std::vector<Run>& runs) {
  const auto from = runs.size() > 1 ? runs.begin() + 1 : runs.begin();
  return std::max_element(from, runs.end(),
                          [](const Run& a, const Run& b) { return a.length() < b.length(); })
      ->begin;
}

// Those of such a period, but for what comes between them now and then: a checkpoint, logging, an
// evaluation.  No starts: they are no steps.
Cycle cycle_with_breaks(const std::vector<Piece>& pieces, size_t period) {
  std::vector<Run> runs =
      may_have_runs(pieces, period) ? runs_of(pieces, period) : std::vector<Run>{};
  if (runs.empty()) {
    return {};
  }
  const size_t body = first_of_a_step(runs);
  const bool is_one_name =
      std::all_of(pieces.begin() + static_cast<ptrdiff_t>(body),
                  pieces.begin() + static_cast<ptrdiff_t>(body + period),
                  [&](const Piece& piece) { return piece.name == pieces[body].name; });
  Cycle cycle;
  size_t covered = 0;
  std::erase_if(runs, [&](const Run& run) {
    const std::vector<size_t> some = steps_within(pieces, run, body, period);
    cycle.starts.insert(cycle.starts.end(), some.begin(), some.end());
    covered += some.empty() ? 0 : run.length();
    return some.empty();
  });
  if (is_one_name || !is_most(pieces, covered)) {
    return {};
  }
  cycle.places_of_others = places_of_others(pieces, cycle.starts, period);
  cycle.ends_whole = ends_after_whole_cycles(runs, period);
  return cycle;
}

// Whether the host waits for the GPU, or gets a batch, between one and the next, nearly each time.
bool has_call_in_each(const Timeline& timeline, const std::vector<Piece>& pieces,
                      const std::vector<size_t>& starts) {
  std::vector<int64_t> times;
  times.reserve(starts.size());
  for (const size_t start : starts) {
    times.push_back(pieces[start].start_ns);
  }
  std::vector<bool> has(times.size(), false);
  for (const HostCall& call : timeline.calls) {
    if (call.kind == HostCallKind::kBlocking || call.kind == HostCallKind::kLoader) {
      const auto after = std::upper_bound(times.begin(), times.end(), call.end_ns);
      if (after != times.begin()) {
        has[static_cast<size_t>(after - times.begin()) - 1] = true;
      }
    }
  }
  return static_cast<double>(std::count(has.begin(), has.end(), true)) >=
         kStepsCover * static_cast<double>(has.size());
}

// Or a part of one, as its layers.  The rest of a step, as the optimizer or what comes before the
// first layer, has kernels of its own; what comes between steps has none, or comes once, as a
// warm-up, where something else tells steps.
bool is_step(const Timeline& timeline, const std::vector<Piece>& pieces, const Cycle& cycle,
             size_t period) {
  if (cycle.starts.empty() || cycle.places_of_others > 1) {
    return false;
  }
  const bool is_evident = period >= kShortestPeriod || cycle.ends_whole;
  return (is_evident && cycle.places_of_others == 0) ||
         has_call_in_each(timeline, pieces, cycle.starts);
}

StepPeriod period_of(const std::vector<Piece>& pieces, size_t period,
                     const std::vector<size_t>& starts) {
  StepPeriod found;
  found.work = period;
  found.repeats = static_cast<double>(pieces.size()) / static_cast<double>(period);
  found.device = pieces.front().device;
  for (const size_t start : starts) {
    found.starts.push_back(pieces[start].start_ns);
  }
  std::vector<int64_t> lengths;
  for (size_t i = 0; i + period < pieces.size(); ++i) {
    lengths.push_back(pieces[i + period].start_ns - pieces[i].start_ns);
  }
  found.step_ns = upper_median(std::move(lengths));
  return found;
}

}  // namespace

std::optional<StepPeriod> find_step_period(const Timeline& timeline) {
  const std::vector<Piece> pieces = busiest_stream(timeline);
  for (size_t period = 2; period * 2 <= pieces.size(); ++period) {
    if (period >= kShortestPeriod && repeats_after(pieces, period)) {
      return period_of(pieces, period, all_steps(pieces, period));
    }
    const Cycle cycle = cycle_with_breaks(pieces, period);
    if (is_step(timeline, pieces, cycle, period)) {
      return period_of(pieces, period, cycle.starts);
    }
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

int64_t last_end(const Timeline& timeline, int32_t device) {
  int64_t end = kNothingYet;
  for (const GpuWork& work : timeline.work) {
    end = work.device == device ? std::max(end, work.end_ns) : end;
  }
  return end;
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
  const int64_t end = last_end(timeline, device);
  while (starts.size() > 1 && starts.back() >= end) {
    starts.pop_back();
  }
  return starts;
}

double recorded_steps(const Timeline& timeline, size_t steps) {
  const std::vector<int64_t>& marks = timeline.step_starts;
  std::vector<size_t> launched(marks.size() + 1), missing(marks.size() + 1);  // 0: before all
  const std::vector<KernelLaunch> launches = kernel_launches(timeline);
  bool at_end = true;
  for (auto launch = launches.rbegin(); launch != launches.rend(); ++launch) {
    at_end = at_end && !launch->has_work;
    const auto after = std::upper_bound(marks.begin(), marks.end(), launch->start_ns);
    const auto step = static_cast<size_t>(after - marks.begin());
    ++launched[step];
    missing[step] += at_end ? 1 : 0;
  }
  double recorded = 0;
  for (size_t i = 1; i <= std::min(steps, marks.size()); ++i) {
    recorded += missing[i] == 0
                    ? 1
                    : 1 - static_cast<double>(missing[i]) / static_cast<double>(launched[i]);
  }
  return recorded;
}

size_t steps_left_out(const Timeline& timeline) {
  if (timeline.step_starts.empty() || missing_work(timeline).at_end == 0) {
    return 0;
  }
  std::set<int32_t> devices;
  for (const GpuWork& work : timeline.work) {
    devices.insert(work.device);
  }
  size_t kept = 0;
  for (const int32_t device : devices) {
    kept = std::max(kept, steps_on_device(timeline, device).size());
  }
  return timeline.step_starts.size() - kept;
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
