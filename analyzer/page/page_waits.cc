// Who waits for whom, ranks in the same state as one.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/threads_now.h"
#include "analyzer/model/waiting/host_functions.h"
#include "analyzer/page/page_data.h"

namespace traintrace {
namespace {

// The page folds them further, and says how many were left out.
constexpr size_t kMostNodes = 400;
constexpr size_t kMostEdges = 2000;

// Ranks of one state are drawn as one: in which waits they wait, and in which they are waited for.
struct Signature {
  std::set<size_t> waits, awaited;
  bool culprit = false;
  auto operator<=>(const Signature&) const = default;  // NOLINT(modernize-use-nullptr)
};

std::map<Rank, Signature> signatures(const std::vector<Wait>& waits, const Ranks& culprits) {
  std::map<Rank, Signature> all;
  for (size_t i = 0; i < waits.size(); ++i) {
    for (const Waiter& waiter : waits[i].waiters) {
      all[waiter.rank].waits.insert(i);
    }
    for (const Awaited& awaited : waits[i].awaited) {
      all[awaited.rank].awaited.insert(i);
    }
  }
  for (auto& [rank, signature] : all) {
    signature.culprit = contains(culprits, rank);
  }
  return all;
}

// Waits in what all have entered, for those whose GPU a host function keeps from it.
std::vector<Wait> waits_for_functions(const Run& run, const std::vector<Stall>& stalls,
                                      std::map<Rank, std::string>& functions) {
  std::vector<Wait> waits;
  for (const Stall& stall : stalls) {
    Wait wait;
    wait.communicator = stall.communicator;
    wait.sequence = stall.sequence;
    for (const StalledRank& rank : stall.ranks) {
      const ProcessTrace& trace = run.processes[rank.process];
      const RankState* const state = state_of(run, rank.rank);
      wait.operation = call_name(trace, rank.operation.call);
      if (const HostFunctionText* const function =
              function_before(run, rank.process, rank.operation)) {
        functions[rank.rank] = page_place(trace, rank.rank, function->stack);
        wait.awaited.push_back({.rank = rank.rank, .entered = true, .held_up = true});
      } else if (state != nullptr) {
        wait.waiters.push_back({.rank = rank.rank,
                                .process = rank.process,
                                .since = rank.operation.enter,
                                .until = state->last_seen,
                                .stack = rank.operation.stack});
      }
    }
    if (!wait.awaited.empty() && !wait.waiters.empty()) {
      waits.push_back(std::move(wait));
    }
  }
  return waits;
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
  const auto silent = silent_since(run, *state);
  const std::string what = !activity ? "no call is recorded"
                           : activity->open && activity->queries == 0
                               ? "inside " + page_activity(*activity)
                               : page_activity(*activity);
  return {silent ? fmt::format("silent since {}; {}", run_time(run, *silent), what) : what, place};
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
          {"sequence", wait.sequence},
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

PageJson page_waits(const Run& run, const ShownWaits& shown, const Ranks& culprits) {
  std::map<Signature, Ranks> groups;
  std::map<Rank, std::string> functions;  // that keep its GPU: where they were enqueued
  std::vector<Wait> waits = waits_for_functions(run, shown.stalls, functions);
  waits.insert(waits.begin(), shown.waits.begin(), shown.waits.end());
  for (const auto& [rank, signature] : signatures(waits, culprits)) {
    insert(groups[signature], rank);
  }
  PageJson json = {{"nodes", PageJson::array()}, {"edges", PageJson::array()}, {"left_out", 0}};
  size_t left_out = 0;
  for (const auto& [signature, ranks] : groups) {
    if (json["nodes"].size() == kMostNodes) {
      left_out += ranks.size();
      continue;
    }
    const auto function = functions.find(ranks.front());
    const auto [call, place] = !signature.waits.empty() ? std::pair<std::string, std::string>()
                               : function == functions.end()
                                   ? doing(run, ranks.front())
                                   : std::pair("in a host function", function->second);
    json["nodes"].push_back({{"ranks", page_json(ranks)},
                             {"culprit", signature.culprit},
                             {"doing", call},
                             {"at", place}});
  }
  json["left_out"] = left_out;
  size_t from = 0;
  for (const auto& [waiting, ranks] : groups) {
    size_t to = 0;
    for (const auto& [awaited, others] : groups) {
      for (const size_t i : waiting.waits) {
        if (awaited.awaited.contains(i) && from < kMostNodes && to < kMostNodes &&
            json["edges"].size() < kMostEdges) {
          PageJson edge = edge_json(run, waits[i], ranks, others.front());
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
