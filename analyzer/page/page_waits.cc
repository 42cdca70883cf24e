// Who waits for whom, ranks in the same state as one.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/threads_now.h"
#include "analyzer/page/page_data.h"

namespace traintrace {
namespace {

// The page folds them further, and says how many were left out.
constexpr size_t kMostNodes = 400;
constexpr size_t kMostEdges = 2000;

// In which waits a rank waits, and in which it is waited for.
using Signature = std::pair<std::set<size_t>, std::set<size_t>>;

std::map<Rank, Signature> signatures(const Run& run) {
  std::map<Rank, Signature> all;
  for (size_t i = 0; i < run.waits.waits.size(); ++i) {
    for (const Waiter& waiter : run.waits.waits[i].waiters) {
      all[waiter.rank].first.insert(i);
    }
    for (const Awaited& awaited : run.waits.waits[i].awaited) {
      all[awaited.rank].second.insert(i);
    }
  }
  return all;
}

const Waiter* waiter_of(const Wait& wait, Rank rank) {
  const auto found = std::find_if(wait.waiters.begin(), wait.waiters.end(),
                                  [&](const Waiter& waiter) { return waiter.rank == rank; });
  return found == wait.waiters.end() ? nullptr : &*found;
}

// How the rank that is waited for stands to the operation.
const char* part_in(const Wait& wait, Rank rank) {
  const auto found = std::find_if(wait.awaited.begin(), wait.awaited.end(),
                                  [&](const Awaited& awaited) { return awaited.rank == rank; });
  return found == wait.awaited.end() ? ""
         : found->held_up            ? "entered it; its stream is blocked before it"
         : found->entered            ? "entered it, and did not finish"
                                     : "has not entered it";
}

std::string wait_name(const Run& run, const Wait& wait) {
  const std::string& name = run.communicators[wait.communicator].name;
  return wait.sequence == 0 ? fmt::format("{} on {}", wait.operation, name)
                            : fmt::format("{} {} #{}", wait.operation, name, wait.sequence);
}

// What a rank that waits in no operation is known to do: the call, and where.
std::pair<std::string, std::string> doing(const Run& run, Rank rank) {
  const RankState* const state = state_of(run, rank);
  if (state == nullptr) {
    return {"left no trace", ""};
  }
  const ThreadNow* const seen = seen_outside(run, *state);
  if (seen != nullptr) {
    const auto there = place_now(*seen, rank);
    return {doing_text(*seen), there ? place_text(*there) : ""};
  }
  const auto activity = activity_of(run, *state);
  const std::string place =
      activity ? page_place(trace_of(run, *state), rank, activity->stack) : "";
  if (exited_normally(run, *state)) {
    return {"exited", place};
  }
  if (has_ended(*state) && ended_early(run, *state)) {
    return {state->ending == Ending::kExited ? "exited with a failure" : "died", place};
  }
  return {!activity               ? "no call is recorded"
          : activity->queries > 0 ? fmt::format("{}, {} times", activity->call, activity->queries)
                                  : activity->call,
          place};
}

// Of a group: since when its first rank waits there.
PageJson edge_json(const Run& run, const Wait& wait, const Ranks& waiting, Rank awaited) {
  const Waiter* const waiter = waiter_of(wait, waiting.front());
  TimeNs since = 0;
  TimeNs until = 0;
  for (const Rank rank : waiting) {
    if (const Waiter* const one = waiter_of(wait, rank)) {
      since = since == 0 ? one->since : std::min(since, one->since);
      until = std::max(until, one->until);
    }
  }
  return {{"text", wait_name(run, wait)},
          {"operation", wait.operation},
          {"communicator", run.communicators[wait.communicator].name},
          {"message", wait.kind == WaitKind::kReceive || wait.kind == WaitKind::kSend},
          {"place", waiter == nullptr
                        ? ""
                        : page_place(run.processes[waiter->process], waiter->rank, waiter->stack)},
          {"since", since == 0 ? PageJson() : PageJson(page_us(run, since))},
          {"waited", since == 0 || until < since ? PageJson() : PageJson(until - since)},
          {"part", part_in(wait, awaited)}};
}

}  // namespace

PageJson page_waits(const Run& run, const Ranks& culprits) {
  std::map<Signature, Ranks> groups;
  for (const auto& [rank, signature] : signatures(run)) {
    insert(groups[signature], rank);
  }
  PageJson json = {{"nodes", PageJson::array()}, {"edges", PageJson::array()}, {"left_out", 0}};
  size_t left_out = 0;
  for (const auto& [signature, ranks] : groups) {
    if (json["nodes"].size() == kMostNodes) {
      left_out += ranks.size();
      continue;
    }
    const auto [call, place] =
        signature.first.empty() ? doing(run, ranks.front()) : std::pair<std::string, std::string>();
    json["nodes"].push_back({{"ranks", page_json(ranks)},
                             {"culprit", contains(culprits, ranks.front())},
                             {"doing", call},
                             {"at", place}});
  }
  json["left_out"] = left_out;
  size_t from = 0;
  for (const auto& [waiting, ranks] : groups) {
    size_t to = 0;
    for (const auto& [awaited, others] : groups) {
      for (const size_t i : waiting.first) {
        if (awaited.second.contains(i) && from < kMostNodes && to < kMostNodes &&
            json["edges"].size() < kMostEdges) {
          PageJson edge = edge_json(run, run.waits.waits[i], ranks, others.front());
          edge["from"] = from;
          edge["to"] = to;
          json["edges"].push_back(std::move(edge));
        }
      }
      ++to;
    }
    ++from;
  }
  return json;
}

}  // namespace traintrace
