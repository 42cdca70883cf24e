#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "analyzer/memory/field_value.h"
#include "analyzer/memory/growth/first_pass.h"
#include "analyzer/memory/history.h"
#include "analyzer/memory/loop_around.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/told_steps.h"
#include "analyzer/reader/sections/stored_reports.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// The call, its stack and its caller, and its place in a cycle of sizes.
using Site = std::tuple<uint32_t, uint32_t, uint64_t, size_t>;
using Sites = std::map<Site, CallTimes>;

bool has_peers(const ProcessTrace& trace) {
  return std::any_of(trace.communicators.begin(), trace.communicators.end(),
                     [](const CommunicatorText& text) { return text.size > 1; });
}

enum class WorkOf : uint8_t { kRanksTogether, kGpu };

bool is_work(const std::string& kind, WorkOf whom) {
  return whom == WorkOf::kRanksTogether ? kind == "collective" || kind == "send-recv"
                                        : kind == "launch" || kind == "graph-launch";
}

// After how many calls their sizes come again, as those of DDP's buckets do, which one line of
// PyTorch sends; 1: they are equal, or in no such order.  The first quarter may differ: DDP forms
// its buckets anew after the first step.
size_t cycle_of(const std::vector<uint64_t>& sizes) {
  constexpr size_t kLongestCycle = 64;
  const size_t from = sizes.size() / 4;
  const size_t kept = sizes.size() - from;
  for (size_t length = 1; length <= kLongestCycle && length * kFewestSteps <= kept; ++length) {
    size_t differ = 0;
    for (size_t i = from + length; i < sizes.size(); ++i) {
      differ += sizes[i] != sizes[i - length] ? 1 : 0;
    }
    if (differ == 0) {
      return length;
    }
  }
  return 1;
}

// Each place of the cycle is a site of its own: it is called once in each.
void split_cycles(const std::map<Site, std::vector<uint64_t>>& sizes, Sites& sites) {
  for (const auto& [site, each] : sizes) {
    const size_t length = cycle_of(each);
    if (length == 1) {
      continue;
    }
    const std::vector<TimeNs> times = std::move(sites.extract(site).mapped());
    const auto& [call, stack, caller, place] = site;
    for (size_t i = 0; i < times.size(); ++i) {
      sites[{call, stack, caller, 1 + (times.size() - 1 - i) % length}].push_back(times[i]);
    }
  }
}

Sites working_sites(const ProcessTrace& trace, WorkOf whom) {
  Sites sites;
  std::map<Site, std::vector<uint64_t>> sizes;
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema = schema_of(trace, event.call);
    if (schema == nullptr || event.enter == 0 || event.enter_lost || event.result != 0 ||
        !is_work(schema->kind, whom)) {
      continue;
    }
    const Site site{event.call, event.stack, event.caller, 0};
    sites[site].push_back(event.enter);
    if (whom == WorkOf::kRanksTogether) {
      sizes[site].push_back(value_of(trace, event, "count").value_or(0));
    }
  }
  split_cycles(sizes, sites);
  return sites;
}

bool counts_as_work(const CallSchema& schema) {
  return schema.kind == "launch" || schema.kind == "graph-launch" || schema.kind == "collective" ||
         schema.kind == "send-recv";
}

bool is_capturing_after(const CallSchema& schema, bool before) {
  return before ? schema.name.find("EndCapture") == std::string::npos
                : schema.name.find("BeginCapture") != std::string::npos;
}

// How much work the replay of a graph is, on average: as many launches as were captured into one.
uint64_t launches_in_graph(const ProcessTrace& trace) {
  uint64_t launches = 0;
  uint64_t graphs = 0;
  bool captures = false;
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema = schema_of(trace, event.call);
    const bool did = captures;
    captures = schema == nullptr ? did : is_capturing_after(*schema, did);
    graphs += captures && !did ? 1 : 0;
    launches += captures && schema != nullptr && counts_as_work(*schema) ? 1 : 0;
  }
  return graphs == 0 ? 1 : std::max<uint64_t>(launches / graphs, 1);
}

constexpr size_t kMostSites = 8192;  // more than a step has: nothing that repeats in few lines

// How many places were called how often.
using Counts = std::map<uint64_t, uint64_t>;

Counts counts_of(const Sites& sites) {
  Counts counts;
  for (const auto& [key, times] : sites) {
    ++counts[times.size()];
  }
  return counts;
}

// Called about as often, give or take the step at either end.
uint64_t agreeing(const Counts& counts, uint64_t count) {
  uint64_t agree = 0;
  for (auto other = counts.lower_bound(count - 1);
       other != counts.end() && other->first <= count + 1; ++other) {
    agree += other->second;
  }
  return agree;
}

// Of two that are as likely: what begins behind the other is no preparation; else the outer loop.
bool is_better(const CallTimes& times, const CallTimes& best) {
  return times.front() >= best.back()   ? true
         : best.front() >= times.back() ? false
                                        : times.size() < best.size();
}

// What the job tells wins over what looks like steps.  Of work before and after them nothing is
// known but that it is none of theirs.
std::optional<Steps> as_told(const ProcessTrace& trace, const Sites& sites) {
  const std::vector<ToldStep> told = told_steps(trace);
  if (told.size() < kFewestSteps) {
    return std::nullopt;
  }
  Steps steps;
  steps.starts.reserve(told.size());
  for (const ToldStep& step : told) {
    steps.starts.push_back(step.began);
  }
  steps.work_end = steps.last();
  for (const auto& [site, times] : sites) {
    steps.work_end = std::max(steps.work_end, times.back());
  }
  return steps;
}

uint64_t events_since(const ProcessTrace& trace, TimeNs time) {
  uint64_t count = 0;
  each_event(trace, [&](const CallRecord& event, FieldValues) {
    count += !event.enter_lost && event.enter >= time ? 1 : 0;
  });
  return count;
}

// How many steps the records that were overwritten were of, by those of the steps that are left;
// none: not all that is left was read.
std::optional<int64_t> steps_overwritten(const ProcessTrace& trace, const Steps& steps) {
  uint64_t written = 0;
  for (const ThreadText& thread : trace.threads) {
    written = sum_of(written, thread.events);
  }
  uint64_t lost = 0;
  for (const LossText& loss : trace.losses) {
    lost = sum_of(lost, loss.stat == "ring-overwritten" ? loss.count : 0);
  }
  const uint64_t events = event_count(trace);
  const uint64_t left = written - std::min(written, lost);
  if (steps.count() == 0 || lost == 0 || !trace.errors.empty() || left < events ||
      left > 2 * events) {  // one record of each, or two
    return std::nullopt;
  }
  const double of_steps = static_cast<double>(left) *
                          static_cast<double>(events_since(trace, steps.first())) /
                          static_cast<double>(events);
  return static_cast<int64_t>(
      std::ceil(static_cast<double>(lost) * static_cast<double>(steps.count()) / of_steps));
}

// Of the last step, as far as the places that are called as often tell, which is no longer than
// two others.
TimeNs end_of_last_step(const Sites& sites, const Steps& steps) {
  const TimeNs length = elapsed(steps.first(), steps.last()) /
                        std::max<TimeNs>(static_cast<TimeNs>(steps.count()), 1);
  TimeNs end = steps.last();
  for (const auto& [site, times] : sites) {
    const size_t calls = times.size();
    const bool as_often = calls + 1 >= steps.starts.size() && calls <= steps.starts.size() + 1;
    if (as_often && times.back() <= steps.last() + 2 * length) {
      end = std::max(end, times.back());
    }
  }
  return end;
}

// What was called after that time.
void leave_later(Sites& sites, TimeNs time) {
  for (auto& [site, times] : sites) {
    times.erase(times.begin(), std::upper_bound(times.begin(), times.end(), time));
  }
  std::erase_if(sites, [](const auto& site) { return site.second.empty(); });
}

// What most places are called as often as; null: nothing is called often enough.
const CallTimes* most_frequent(const Sites& sites) {
  const Counts counts = counts_of(sites);
  const CallTimes* best = nullptr;
  uint64_t most = 0;
  for (const auto& [site, times] : sites) {
    const uint64_t others = times.size() < kFewestSteps ? 0 : agreeing(counts, times.size());
    if (others > most || (others == most && best != nullptr && is_better(times, *best))) {
      best = &times;
      most = others;
    }
  }
  return best;
}

const CallTimes* loop_around(const ProcessTrace& trace, const Sites& sites,
                             const CallTimes& inner) {
  std::vector<const CallTimes*> places;
  places.reserve(sites.size());
  for (const auto& [site, times] : sites) {
    places.push_back(&times);
  }
  return loop_around(trace, places, inner);
}

// The step of the GPU's own work, where it holds several of what ranks do together, as one line may
// send the buckets of a step or gather the weights of each layer.
std::optional<CallTimes> step_of_launches(const ProcessTrace& trace, const CallTimes& together) {
  const Sites launches = working_sites(trace, WorkOf::kGpu);
  const CallTimes* const inner = launches.size() > kMostSites ? nullptr : most_frequent(launches);
  const CallTimes* const step = inner == nullptr ? nullptr : loop_around(trace, launches, *inner);
  return step == nullptr || calls_in_each_round(*step, together) == 0 ? std::nullopt
                                                                      : std::optional(*step);
}

// Between host and device, by the line that copies.
std::vector<CallTimes> exchanges_with_host(const ProcessTrace& trace) {
  constexpr uint64_t kHostToDevice = 1;  // cudaMemcpyKind
  constexpr uint64_t kDeviceToHost = 2;
  std::map<std::pair<uint32_t, uint64_t>, CallTimes> by_place;
  for (const CallRecord& event : trace.events) {
    const CallSchema* const schema = schema_of(trace, event.call);
    if (schema == nullptr || schema->kind != "copy" || event.enter_lost || event.result != 0) {
      continue;
    }
    const uint64_t direction = value_of(trace, event, "direction").value_or(0);
    if (direction == kHostToDevice || direction == kDeviceToHost) {
      by_place[{event.stack, event.caller}].push_back(event.enter);
    }
  }
  std::vector<CallTimes> all;
  all.reserve(by_place.size());
  for (auto& [place, times] : by_place) {
    all.push_back(std::move(times));
  }
  return all;
}

// Where a job only infers, the layers of a step may be all that it launches: one line launches
// several times in each step, and no place does so once.  Then the step is what fetches its input
// or hands over its result.  None: it trains, or something is exchanged with the host as often as
// that is launched, or nothing is.
std::optional<CallTimes> step_of_exchanges(const ProcessTrace& trace, const CallTimes& inner) {
  if (!only_goes_forward(trace, {inner, inner.back()})) {
    return std::nullopt;
  }
  const std::vector<CallTimes> all = exchanges_with_host(trace);
  const CallTimes* found = nullptr;
  size_t fewest = 0;
  for (const CallTimes& times : all) {
    if (times.size() + 1 >= inner.size()) {
      return std::nullopt;
    }
    const size_t calls = calls_in_each_round(times, inner);
    if (calls != 0 && (found == nullptr || calls < fewest)) {
      found = &times;
      fewest = calls;
    }
  }
  return found == nullptr ? std::nullopt : std::optional(*found);
}

// What repeats in these places; none: nothing does so often enough.
std::optional<Steps> repeated(const ProcessTrace& trace, const Sites& sites, WorkOf whom) {
  const CallTimes* const best = most_frequent(sites);
  if (best == nullptr) {
    return std::nullopt;
  }
  TimeNs end = 0;
  for (const auto& [site, times] : sites) {
    end = std::max(end, times.back());
  }
  if (const CallTimes* const around = loop_around(trace, sites, *best)) {
    return Steps{*around, end};
  }
  const std::optional<CallTimes> step = whom == WorkOf::kRanksTogether
                                            ? step_of_launches(trace, *best)
                                            : step_of_exchanges(trace, *best);
  return Steps{step ? *step : *best, end};
}

// What follows training and runs layers alone gathers results, as an evaluation at the end does.
// Of a graph that is replayed is not known what is in it.
bool is_evaluation(const ProcessTrace& trace, const Steps& before, const Steps& steps) {
  return !only_goes_forward(trace, before) && only_goes_forward(trace, steps) &&
         std::none_of(trace.events.begin(), trace.events.end(), [&](const CallRecord& event) {
           const CallSchema* schema = schema_of(trace, event.call);
           return schema != nullptr && schema->kind == "graph-launch" &&
                  event.enter >= steps.first();
         });
}

}  // namespace

int64_t first_step(const ProcessTrace& trace, const MemoryHistory& history) {
  if (all_since_armed(trace)) {
    return 0;
  }
  TimeNs start = trace.armed;
  for (const CommunicatorText& communicator : trace.communicators) {
    start = communicator.size > 1 ? std::max(start, communicator.ready) : start;
  }
  const int64_t first = std::min<int64_t>(history.steps.number_at(start), 0);
  return std::max(first, -steps_overwritten(trace, history.steps).value_or(-first));
}

bool is_preparation(const ProcessTrace& trace, const Steps& steps) {
  constexpr uint64_t kMuchMore = 3;  // times: first calls are slow, and so time says little
  const uint64_t of_graph = launches_in_graph(trace);
  bool captures = false;
  uint64_t within = 0;
  uint64_t later = 0;
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema = schema_of(trace, event.call);
    if (schema == nullptr || event.enter_lost) {
      continue;
    }
    captures = is_capturing_after(*schema, captures);
    if (counts_as_work(*schema) && !captures) {
      (event.enter > steps.last() ? later : within) +=
          schema->kind == "graph-launch" ? of_graph : 1;
    }
  }
  const bool lasts_longer =
      elapsed(steps.last(), steps.work_end) > elapsed(steps.first(), steps.last());
  return lasts_longer ? later > within : later > kMuchMore * within;
}

Steps steps_of(const ProcessTrace& trace) {
  const WorkOf whom = has_peers(trace) ? WorkOf::kRanksTogether : WorkOf::kGpu;
  Sites sites = working_sites(trace, whom);
  if (const std::optional<Steps> told = as_told(trace, sites)) {
    return *told;
  }
  if (sites.size() > kMostSites) {
    return {};
  }
  std::optional<Steps> steps = repeated(trace, sites, whom);
  while (steps && is_preparation(trace, *steps)) {
    leave_later(sites, end_of_last_step(sites, *steps));
    const std::optional<Steps> later = repeated(trace, sites, whom);
    if (!later || is_evaluation(trace, *steps, *later)) {
      break;
    }
    steps = later;
  }
  return steps.value_or(Steps());
}

int64_t Steps::number_at(TimeNs time) const {
  if (starts.empty() || time >= first()) {
    return std::upper_bound(starts.begin(), starts.end(), time) - starts.begin();
  }
  const TimeNs length =
      std::max<TimeNs>(elapsed(first(), last()) / static_cast<TimeNs>(starts.size()), 1);
  return -(elapsed(time, first()) / length);
}

}  // namespace traintrace
