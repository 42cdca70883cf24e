#include "analyzer/model/process/sampled_place.h"

#include <algorithm>
#include <map>
#include <optional>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/code_place.h"

namespace traintrace {
namespace {

constexpr size_t kMostRead = 8;  // processes: each takes all its events

// By thread, those since its last call: the newest ones that are all on one line.
std::map<uint32_t, SampledPlace> places_of(const ProcessTrace& trace, const ProcessTrace& tables) {
  std::map<uint32_t, SampledPlace> places;
  std::map<uint32_t, bool> done;
  for (auto event = trace.events.rbegin(); event != trace.events.rend(); ++event) {
    const CallSchema* const schema = schema_of(trace, event->call);
    if (!event->moment) {
      done[event->thread] = true;
    }
    if (!event->moment || schema == nullptr || schema->kind != "host-sample") {
      continue;
    }
    const auto thread = static_cast<uint32_t>(value_of(trace, *event, "thread").value_or(0));
    if (thread == 0 || done[thread]) {
      continue;
    }
    SampledPlace& place = places[thread];
    const auto here = user_place(tables, {}, event->stack);
    if (!here || (place.looks > 0 && *user_place(tables, {}, place.stack) != *here)) {
      done[thread] = true;
      continue;
    }
    place.stack = place.looks == 0 ? event->stack : place.stack;
    place.last = place.looks == 0 ? event->enter : place.last;
    place.first = event->enter;
    ++place.looks;
  }
  std::erase_if(places, [](const auto& each) { return each.second.looks == 0; });
  return places;
}

// It only waits for another one to end.
bool is_joining(const ProcessTrace& trace, const SampledPlace& place) {
  const auto stack = trace.stacks.find(place.stack);
  if (stack == trace.stacks.end() || stack->second.python.empty()) {
    return false;
  }
  const PythonFrameText& frame = stack->second.python.front();
  return frame.file.ends_with("threading.py") &&
         (frame.function.ends_with("join") || frame.function.ends_with("_wait_for_tstate_lock"));
}

// That of the main thread, unless that only waits for others to end; then of the one that made the
// rank's last call.
std::optional<SampledPlace> sampled_of(const Run& run, const RankState& state,
                                       const ProcessTrace& events) {
  const ProcessTrace& trace = trace_of(run, state);
  const auto activity = activity_of(run, state);
  const auto places = places_of(events, trace);
  for (const ThreadText& thread : trace.threads) {
    const auto place = places.find(thread.serial);
    if (place != places.end() && thread.tid == trace.pid && works_for(state, thread) &&
        !is_joining(trace, place->second)) {
      return place->second;
    }
  }
  const auto caller = activity ? places.find(activity->thread) : places.end();
  return caller != places.end() ? std::optional(caller->second) : std::nullopt;
}

// None has called anything for as long as a hang takes, nor said that it ended.
bool all_are_silent(const Run& run) {
  return std::all_of(run.ranks.begin(), run.ranks.end(), [&](const RankState& state) {
    const auto activity = activity_of(run, state);
    return state.ending != Ending::kExited && activity && !activity->open &&
           elapsed(activity->time, state.last_seen) >= run.hang_after;
  });
}

}  // namespace

void find_sampled_places(Run& run, const Ranks& ranks, const ReadEvents& read_events) {
  size_t read = 0;
  for (RankState& state : run.ranks) {
    if (!contains(ranks, state.rank)) {
      continue;
    }
    const ProcessTrace& trace = trace_of(run, state);
    const auto activity = activity_of(run, state);
    if (activity && (activity->open || activity->queries > 0)) {
      continue;
    }
    const ProcessTrace* events = &trace;
    if (trace.events.empty()) {
      events = read_events && read++ < kMostRead ? read_events(trace) : nullptr;
    }
    if (events != nullptr) {
      state.sampled = sampled_of(run, state, *events);
    }
  }
}

void find_sampled_roots(Run& run, const ReadEvents& read_events) {
  Ranks ranks;
  for (const Hang& hang : run.waits.hangs) {
    for (const Rank rank : hang.roots) {
      insert(ranks, rank);
    }
  }
  if (run.waits.waits.empty() && all_are_silent(run)) {
    for (const RankState& state : run.ranks) {
      insert(ranks, state.rank);
    }
  }
  find_sampled_places(run, ranks, read_events);
}

}  // namespace traintrace
