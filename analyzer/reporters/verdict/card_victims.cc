#include "analyzer/reporters/verdict/card_victims.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/reporters/verdict/card_actor.h"
#include "analyzer/text/units.h"

namespace traintrace {
namespace {

struct Blocked {
  CardActor actor;
  std::vector<const Wait*> waits;
  size_t side = 0;  // of Finding::sides, which go from the culprits to those that are furthest away
};

bool meet(const Ranks& a, const Ranks& b) {
  return std::any_of(a.begin(), a.end(), [&](Rank rank) { return contains(b, rank); });
}

// Those of a cycle are all alike: each is waited for, and waits.
size_t side_of(const Ranks& ranks, const Finding& finding) {
  if (!finding.communicators.empty()) {
    return 0;
  }
  const auto side = std::find_if(finding.sides.begin(), finding.sides.end(),
                                 [&](const Ranks& each) { return meet(each, ranks); });
  return static_cast<size_t>(side - finding.sides.begin());
}

// "exited with status 0", "are gone"; empty: not all of them have ended.
std::string ended_text(const Run& run, const Ranks& ranks) {
  std::set<std::string> ends;
  for (const Rank rank : ranks) {
    const RankState* const state = state_of(run, rank);
    if (state == nullptr || !has_ended(*state)) {
      return "";
    }
    ends.insert(state->ending == Ending::kExited
                    ? fmt::format("exited with status {}", trace_of(run, *state).exit_status)
                : ranks.size() == 1 ? "is gone"
                                    : "are gone");
  }
  return ends.empty() ? "" : ends.size() == 1 ? *ends.begin() : "ended";
}

std::string waits_in(const Run& run, const Blocked& blocked) {
  TimeNs since = 0;
  TimeNs longest = 0;
  for (const Wait* const wait : blocked.waits) {
    for (const Waiter& waiter : wait->waiters) {
      if (contains(blocked.actor.ranks, waiter.rank)) {
        since = since == 0 ? waiter.since : std::min(since, waiter.since);
        longest = std::max(longest, elapsed(waiter.since, waiter.until));
      }
    }
  }
  const Wait& first = *blocked.waits.front();
  const bool one = blocked.waits.size() == 1;
  const std::string operation =
      one ? operation_text(run, first)
          : fmt::format("{} on {}", first.operation.empty() ? "collectives" : first.operation,
                        communicators_text(run, blocked.waits));
  std::set<std::string> sizes;
  for (const Wait* const wait : blocked.waits) {
    sizes.insert(wait->details.enter == 0
                     ? ""
                     : for_people(arguments_text("", wait->details)).substr(0, 80));
  }
  const std::string what = sizes.size() == 1 ? *sizes.begin() : "";
  const std::string ended = ended_text(run, blocked.actor.ranks);
  return fmt::format("{}blocked in {} since {}, {}{}",
                     ended.empty()                     ? ""
                     : blocked.actor.ranks.size() == 1 ? ended + "; was "
                                                       : ended + "; were ",
                     operation, run_time(run, since),
                     wait_length_text(run.processes[blocked.waits.front()->waiters.front().process],
                                      duration_text(longest)),
                     what.size() > 4 ? "; " + what.substr(4) : "");  // behind " of "
}

// The oldest wait of those ranks; null: none is known.
const Wait* wait_of(const Run& run, const Ranks& ranks) {
  const Wait* oldest = nullptr;
  TimeNs since = 0;
  for (const Wait& wait : run.waits.waits) {
    for (const Waiter& waiter : wait.waiters) {
      if (contains(ranks, waiter.rank) && (oldest == nullptr || waiter.since < since)) {
        oldest = &wait;
        since = waiter.since;
      }
    }
  }
  return oldest;
}

// By operation and line; of different communicators together.
std::vector<Blocked> blocked_in_waits(const Run& run, const Finding& finding, Ranks& rest) {
  using Key = std::tuple<std::string, std::string, int, size_t>;
  std::vector<Blocked> all;
  std::map<Key, size_t> places;
  for (const Wait& wait : run.waits.waits) {
    CardActor actor;
    for (const Waiter& waiter : wait.waiters) {
      if (contains(rest, waiter.rank) && !contains(finding.culprits, waiter.rank)) {
        if (const auto place = actor.ranks.empty() ? user_place(run.processes[waiter.process],
                                                                waiter.rank, waiter.stack)
                                                   : std::nullopt) {
          actor.frames = job_frames(run, *place);
        }
        actor.ranks.push_back(waiter.rank);
      }
    }
    if (actor.ranks.empty()) {
      continue;
    }
    std::erase_if(rest, [&](Rank rank) { return contains(actor.ranks, rank); });
    const size_t side = side_of(actor.ranks, finding);
    const Key key = actor.frames.empty() ? Key{wait.operation, purpose_of(run, wait), -1, side}
                                         : Key{wait.operation, actor.frames.front().file,
                                               actor.frames.front().line, side};
    const auto [place, is_new] = places.emplace(key, all.size());
    if (is_new) {
      all.push_back({std::move(actor), {&wait}, side});
      continue;
    }
    Blocked& same = all[place->second];
    for (const Rank rank : actor.ranks) {
      insert(same.actor.ranks, rank);
    }
    same.waits.push_back(&wait);
  }
  return all;
}

// Those for which there is no room.
CardActor folded(const std::vector<Blocked>& all, size_t first) {
  CardActor actor;
  std::set<std::string> operations;
  for (size_t i = first; i < all.size(); ++i) {
    for (const Rank rank : all[i].actor.ranks) {
      insert(actor.ranks, rank);
    }
    for (const Wait* const wait : all[i].waits) {
      operations.insert(wait->operation.empty() ? "collectives" : wait->operation);
    }
  }
  std::string text;
  for (const std::string& operation : operations) {
    text += (text.empty() ? "" : ", ") + operation;
  }
  actor.doing = text.empty() ? "blocked" : "blocked in " + text;
  return actor;
}

}  // namespace

void tell_wait_in_cycle(const Run& run, const Finding& finding, CardActor& actor) {
  const Wait* const wait = finding.communicators.empty() ? nullptr : wait_of(run, actor.ranks);
  if (wait == nullptr) {
    return;
  }
  Blocked blocked;
  blocked.actor.ranks = actor.ranks;
  blocked.waits = {wait};
  const size_t inside = actor.doing.find("inside ");
  actor.doing = waits_in(run, blocked) +
                (inside == std::string::npos ? "" : "; " + actor.doing.substr(inside));
}

std::vector<CardActor> card_victims(const Run& run, const Finding& finding, size_t most) {
  Ranks rest = finding.victims;
  std::vector<Blocked> all = blocked_in_waits(run, finding, rest);
  for (Blocked& blocked : all) {
    blocked.actor.doing = waits_in(run, blocked);
  }
  std::erase_if(rest, [&](Rank rank) { return contains(finding.culprits, rank); });
  if (!rest.empty()) {
    Blocked& blocked = all.emplace_back();
    blocked.actor.ranks = rest;
    const auto place = std::find_if(finding.where.begin(), finding.where.end(),
                                    [&](const CodePlace& p) { return contains(rest, p.rank); });
    tell_what_they_did(run, finding, place == finding.where.end() ? nullptr : &*place,
                       blocked.actor);
    // What has ended is blocked no more.
    if (ended_text(run, rest).empty()) {
      const std::string known = blocked.actor.doing;
      const char* const blocked_text = all.size() > 1 ? "blocked as a consequence" : "blocked";
      blocked.actor.doing = known.empty() ? blocked_text : blocked_text + (": " + known);
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Blocked& a, const Blocked& b) { return a.side < b.side; });
  std::vector<CardActor> actors;
  const size_t shown = all.size() <= most ? all.size() : std::max<size_t>(most, 1) - 1;
  for (size_t i = 0; i < shown; ++i) {
    actors.push_back(std::move(all[i].actor));
  }
  if (shown < all.size()) {
    actors.push_back(folded(all, shown));
  }
  for (CardActor& actor : actors) {
    actor.who = who_is(run, actor.ranks);
  }
  return actors;
}

}  // namespace traintrace
