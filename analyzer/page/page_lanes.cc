// What some ranks did around the moment at which they parted.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/threads_now.h"
#include "analyzer/model/waiting/host_functions.h"
#include "analyzer/page/page_data.h"
#include "analyzer/text/units.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

constexpr size_t kMostLanes = 8;
constexpr size_t kMostBars = 120;  // of a lane

struct Bar {
  TimeNs begin = 0, end = 0;
  std::optional<size_t> communicator = std::nullopt;  // in Run::communicators
  uint64_t sequence = 0;
  std::string text = {};
  const char* kind = "done";  // done, enqueued, waits, instead
  uint32_t stack = 0;
  bool collective = false;
  std::optional<Rank> peer = std::nullopt;  // of a message
  bool is_headline = false;                 // what the verdict is about
};

// As model/waiting/waits.cc has it of those that wait: its end, if that was noted within a moment.
TimeNs there_until(const RankState& state) {
  const Life& life = state.life;
  const bool noted = life.evidence == EndEvidence::kNoted &&
                     elapsed(life.last_seen, life.ended) <= kAliveUncertain;
  return noted ? life.ended : state.last_seen;
}

bool is_over(const Bar& bar) {
  return std::string_view(bar.kind) != "waits" && std::string_view(bar.kind) != "instead";
}

// Culprits first, then victims: all of a small job, else two of each and one that is neither.
Ranks chosen(const Run& run, const Finding* leading, const Ranks& culprits) {
  Ranks ranks;
  if (run.ranks.size() <= kMostLanes) {
    for (const RankState& state : run.ranks) {
      ranks.push_back(state.rank);
    }
    return ranks;
  }
  const auto add = [&](const Ranks& from, size_t most) {
    for (size_t i = 0; i < std::min(from.size(), most); ++i) {
      insert(ranks, from[i]);
    }
  };
  if (leading != nullptr) {
    add(leading->culprits, 3);
    add(culprits, 2);
    for (const Ranks& side : leading->sides) {
      add(side, 1);
    }
    add(leading->victims, 2);
  }
  for (const RankState& state : run.ranks) {
    const bool other = leading == nullptr || (!contains(leading->culprits, state.rank) &&
                                              !contains(leading->victims, state.rank));
    if (ranks.size() < 5 && other) {
      insert(ranks, state.rank);
    }
  }
  ranks.resize(std::min(ranks.size(), kMostLanes));
  return ranks;
}

// Messages have numbers of their own for each peer: what waits is known by when it was entered.
const Waiter* waiter_in(const std::vector<Wait>& waits, Rank rank, size_t communicator,
                        const OperationText& operation) {
  const auto is_it = [&](const Wait& wait, const Waiter& waiter) {
    const bool message = wait.kind == WaitKind::kReceive || wait.kind == WaitKind::kSend;
    return waiter.rank == rank && message != operation.collective &&
           (message ? waiter.since == operation.enter &&
                          (wait.kind == WaitKind::kReceive) == operation.receive
                    : wait.sequence == operation.sequence);
  };
  for (const Wait& wait : waits) {
    for (const Waiter& waiter : wait.waiters) {
      if (wait.communicator == communicator && is_it(wait, waiter)) {
        return &waiter;
      }
    }
  }
  return nullptr;
}

// All have entered it, and it does not finish: no rank waits for another one.
bool is_stalled(const std::vector<Stall>& stalls, Rank rank, size_t communicator,
                uint64_t sequence) {
  return std::any_of(stalls.begin(), stalls.end(), [&](const Stall& stall) {
    return stall.communicator == communicator && stall.sequence == sequence &&
           std::any_of(stall.ranks.begin(), stall.ranks.end(),
                       [&](const StalledRank& stalled) { return stalled.rank == rank; });
  });
}

// What the GPU is kept from it by: a function of the host's.  Empty: not known.
std::string held_up_text(const Run& run, const RankState& state, const OperationText& operation) {
  const HostFunctionText* const function = function_before(run, state.process, operation);
  if (function == nullptr) {
    return "";
  }
  const std::string place = page_place(trace_of(run, state), state.rank, function->stack);
  return fmt::format("host function before {} #{}{}",
                     call_name(trace_of(run, state), operation.call), operation.sequence,
                     place.empty() ? "" : " at " + place);
}

// Of a message; nothing: it is a collective, or of that member nothing is known.
std::optional<Rank> peer_of(const Run& run, const Communicator& communicator,
                            const OperationText& operation) {
  if (operation.collective || operation.peer < 0) {
    return std::nullopt;
  }
  const auto peer = std::find_if(
      communicator.members.begin(), communicator.members.end(),
      [&](const Member& member) { return text_of(run, member).rank == operation.peer; });
  return peer == communicator.members.end() ? std::nullopt : std::optional(peer->rank);
}

// "ncclAllReduce", "ncclSend to rank 0"
std::string call_text(const OperationText& operation, std::optional<Rank> peer,
                      const ProcessTrace& trace) {
  std::string call = call_name(trace, operation.call);
  if (operation.collective || operation.peer < 0) {
    return call;
  }
  return fmt::format("{} {} {} {}", call, operation.receive ? "from" : "to", peer ? "rank" : "peer",
                     peer ? peer->value : operation.peer);
}

bool is_one_of(CommunicatorId id, const std::vector<FindingCommunicator>& communicators) {
  return std::any_of(communicators.begin(), communicators.end(),
                     [&](const FindingCommunicator& each) { return each.id == id; });
}

bool is_message(const Finding& finding) {
  return finding.operation == "ncclSend" || finding.operation == "ncclRecv";
}

bool is_of_number(const Bar& bar, const Finding& finding) {
  return finding.sequence && bar.sequence >= *finding.sequence &&
         bar.sequence <= finding.sequence_last.value_or(*finding.sequence);
}

// From one side of the finding to another.
bool is_between_sides(const Finding& finding, Rank rank, Rank peer) {
  const auto side_of = [&](Rank each) {
    return std::find_if(finding.sides.begin(), finding.sides.end(),
                        [&](const Ranks& side) { return contains(side, each); });
  };
  return side_of(rank) != finding.sides.end() && side_of(peer) != finding.sides.end() &&
         side_of(rank) != side_of(peer);
}

// The message of its number between those that the verdict sets apart; one without a number, or
// that went to another peer than it should have, is the newest from the line that it names.
Bar* headline_message(const Run& run, const RankState& state, const Finding& leading,
                      std::vector<Bar>& bars) {
  const bool by_line = !leading.sequence || leading.code == "p2p.wrong-peer" ||
                       leading.code == "p2p.against-collective";
  const auto place = std::find_if(leading.where.begin(), leading.where.end(),
                                  [&](const CodePlace& at) { return at.rank == state.rank; });
  Bar* found = nullptr;
  std::pair best = {false, false};  // between the sides, from the line
  for (Bar& bar : bars) {
    if (bar.collective || !bar.communicator ||
        run.communicators[*bar.communicator].id != leading.communicator->id) {
      continue;
    }
    const bool there = place != leading.where.end() && page_place(trace_of(run, state), state.rank,
                                                                  bar.stack) == place_text(*place);
    const bool between = bar.peer && is_between_sides(leading, state.rank, *bar.peer);
    const bool meant =
        leading.sequence ? is_of_number(bar, leading) && (between || !is_over(bar)) : !is_over(bar);
    const std::pair own = {meant && between, there};
    if ((meant || (by_line && there)) && own >= best) {
      found = &bar;
      best = own;
    }
  }
  return found;
}

// Marks what the verdict is about: the collective of its number, by each rank's own count, or the
// message.
void mark_headline(const Run& run, const RankState& state, const Finding* leading,
                   std::vector<Bar>& bars) {
  if (leading == nullptr || leading->severity == Severity::kInfo) {
    return;
  }
  if (!leading->communicators.empty()) {  // a cycle
    for (Bar& bar : bars) {
      bar.is_headline = std::string_view(bar.kind) == "waits" && bar.communicator &&
                        is_one_of(run.communicators[*bar.communicator].id, leading->communicators);
    }
    return;
  }
  if (!leading->communicator) {
    return;
  }
  const bool of_both = leading->code == "p2p.against-collective";
  if (is_message(*leading) || of_both) {
    const bool takes_part =
        !of_both || (!leading->sides.empty() && contains(leading->sides.front(), state.rank));
    if (Bar* const bar = takes_part ? headline_message(run, state, *leading, bars) : nullptr) {
      bar->is_headline = true;
      return;
    }
  }
  for (Bar& bar : bars) {
    // What has no number is waited in: the creation of a communicator, its end.
    const bool unnumbered = !leading->sequence && bar.sequence == 0 && !is_over(bar);
    bar.is_headline = !is_message(*leading) && bar.communicator && bar.collective &&
                      run.communicators[*bar.communicator].id == leading->communicator->id &&
                      (is_of_number(bar, *leading) || unnumbered);
  }
}

// Waits that are no operation: for the creation of a communicator, for its end.
void add_other_waits(Rank rank, const std::vector<Wait>& waits, std::vector<Bar>& bars) {
  for (const Wait& wait : waits) {
    for (const Waiter& waiter : wait.waiters) {
      if (wait.kind == WaitKind::kInit && waiter.rank == rank && waiter.since != 0) {
        Bar bar{waiter.since,      std::max(waiter.since, waiter.until),
                wait.communicator, 0,
                wait.operation,    "waits",
                waiter.stack};
        bar.collective = true;
        bars.push_back(std::move(bar));
      }
    }
  }
}

// Who waits in none of these, because of others that do, is inside a call.
void add_open_call(const Run& run, const RankState& state, const Finding& leading,
                   std::vector<Bar>& bars) {
  const auto activity = activity_of(run, state);
  if (activity && activity->open && activity->queries == 0 &&
      std::all_of(bars.begin(), bars.end(), is_over)) {
    Bar bar{activity->time, std::max(activity->time, there_until(state)),
            std::nullopt,   0,
            activity->call, "waits",
            activity->stack};
    bar.is_headline = activity->call == leading.operation;
    bars.push_back(std::move(bar));
  }
}

std::vector<Bar> bars_of(const Run& run, const RankState& state, const ShownWaits& shown) {
  const ProcessTrace& trace = trace_of(run, state);
  std::vector<Bar> bars;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const Member* const member = member_of(run.communicators[i], state.rank);
    if (member == nullptr) {
      continue;
    }
    for (const OperationText& operation : text_of(run, *member).recent) {
      const std::optional<Rank> peer = peer_of(run, run.communicators[i], operation);
      Bar bar{operation.enter, std::max(operation.leave, operation.completed), i,
              operation.sequence, call_text(operation, peer, trace)};
      bar.stack = operation.stack;
      bar.peer = peer;
      bar.collective = operation.collective;
      // Its host had handed it to the GPU by then; when it was over is not known.
      bar.kind = operation.completed == 0 ? "enqueued" : "done";
      const Waiter* const waiter = waiter_in(shown.waits, state.rank, i, operation);
      if (waiter != nullptr ||
          (operation.collective && is_stalled(shown.stalls, state.rank, i, operation.sequence))) {
        bar.kind = "waits";
        // As long as the card says.
        bar.end = std::max(waiter == nullptr ? there_until(state) : waiter->until, operation.enter);
        if (std::string held = held_up_text(run, state, operation); !held.empty()) {
          bar.kind = "instead";
          bar.text = std::move(held);
        }
      }
      if (bar.begin != 0) {
        bar.end = std::max(bar.end, bar.begin);
        bars.push_back(std::move(bar));
      }
    }
  }
  add_other_waits(state.rank, shown.waits, bars);
  std::stable_sort(bars.begin(), bars.end(),
                   [](const Bar& a, const Bar& b) { return a.begin < b.begin; });
  if (bars.size() > kMostBars) {
    bars.erase(bars.begin(), bars.end() - kMostBars);
  }
  return bars;
}

// What a culprit did until it came.
void add_late(TimeNs parted, std::vector<Bar>& bars) {
  const auto late =
      std::find_if(bars.begin(), bars.end(), [](const Bar& bar) { return bar.is_headline; });
  if (late == bars.end() || late->begin <= parted) {
    return;
  }
  TimeNs begin = parted;
  for (auto bar = bars.begin(); bar != late; ++bar) {
    begin = std::max(begin, bar->end);
  }
  const std::string text = "late by " + duration_text(late->begin - parted);
  bars.insert(late, Bar{begin, late->begin, std::nullopt, 0, text, "instead"});
}

// What a culprit does while the others wait.
void add_instead(const Run& run, const RankState& state, TimeNs parted, std::vector<Bar>& bars) {
  const auto activity = activity_of(run, state);
  TimeNs begin = parted;
  for (const Bar& bar : bars) {
    begin = std::max(begin, bar.end);
  }
  Bar bar{
      activity && activity->open ? std::max(activity->time, begin) : begin,
      page_exit(run, state).value_or(std::max(there_until(state), activity ? activity->time : 0)),
      std::nullopt,
      0,
      "",
      "instead"};
  if (const ThreadNow* const seen = seen_outside(run, state)) {
    const auto place = place_now(*seen, state.rank);
    bar.text = doing_text(*seen) + (place ? " at " + place_text(*place) : "");
  } else if (activity) {
    const std::string place = page_place(trace_of(run, state), state.rank, activity->stack);
    bar.text = page_activity(*activity) + (place.empty() ? "" : " at " + place);
  } else {
    bar.text = "no call is recorded";
  }
  if (bar.end > bar.begin) {
    bars.push_back(std::move(bar));
  }
}

// When the first rank entered the collective that the culprit came late to; 0: that is not kept.
TimeNs first_entered(const Run& run, const Finding& late) {
  TimeNs first = 0;
  for (const Communicator& communicator : run.communicators) {
    if (!late.communicator || communicator.id != late.communicator->id) {
      continue;
    }
    for (const Member& member : communicator.members) {
      for (const OperationText& operation : text_of(run, member).recent) {
        if (operation.collective && operation.sequence == late.sequence && operation.enter != 0) {
          first = first == 0 ? operation.enter : std::min(first, operation.enter);
        }
      }
    }
  }
  return first;
}

// When the first of those that wait entered what they wait in; 0: no rank waits.
TimeNs parted_at(const Run& run, const Finding* leading, const std::vector<Stall>& stalls) {
  TimeNs first = 0;
  if (leading == nullptr || leading->severity == Severity::kInfo) {
    return first;
  }
  if (leading->code == "collective.late-rank") {
    return first_entered(run, *leading);
  }
  for (const Wait& wait : run.waits.waits) {
    for (const Waiter& waiter : wait.waiters) {
      if (contains(leading->victims, waiter.rank) && (first == 0 || waiter.since < first)) {
        first = waiter.since;
      }
    }
  }
  for (size_t i = 0; first == 0 && i < stalls.size(); ++i) {  // all have entered it
    for (const StalledRank& stalled : stalls[i].ranks) {
      if (contains(leading->victims, stalled.rank) && !leading->culprits.empty()) {
        first = first == 0 ? stalled.operation.enter : std::min(first, stalled.operation.enter);
      }
    }
  }
  const bool waited = std::any_of(leading->values.begin(), leading->values.end(),
                                  [](const auto& value) { return value.first == "waited_ns"; });
  for (const Rank rank : first == 0 && waited ? leading->victims : Ranks()) {
    const RankState* const state = state_of(run, rank);
    const auto activity = state == nullptr ? std::nullopt : activity_of(run, *state);
    if (activity && activity->open && activity->queries == 0) {  // the end of a communicator, say
      first = first == 0 ? activity->time : std::min(first, activity->time);
    }
  }
  return first;
}

}  // namespace

PageJson page_lanes(const Run& run, const ShownWaits& shown, const Finding* leading,
                    const Ranks& culprits, TextTable& texts) {
  const TimeNs parted = parted_at(run, leading, shown.stalls);
  const bool late = leading != nullptr && leading->code == "collective.late-rank";
  PageJson json = {{"parted", parted == 0 ? PageJson() : PageJson(page_us(run, parted))},
                   {"end", page_us(run, run.end)},
                   {"lanes", PageJson::array()}};
  for (const Rank rank : chosen(run, leading, culprits)) {
    const RankState* const state = state_of(run, rank);
    if (state == nullptr) {
      json["lanes"].push_back(
          {{"rank", rank.value}, {"role", "no trace"}, {"bars", PageJson::array()}});
      continue;
    }
    const bool culprit = contains(culprits, rank) && parted != 0;
    std::vector<Bar> bars = bars_of(run, *state, shown);
    mark_headline(run, *state, leading, bars);
    if (culprit && late) {
      add_late(parted, bars);
    } else if (culprit && (bars.empty() || is_over(bars.back()))) {
      add_instead(run, *state, parted, bars);
    } else if (parted != 0 && contains(leading->victims, rank)) {
      add_open_call(run, *state, *leading, bars);
    }
    PageJson lane = {{"rank", rank.value},
                     {"role", culprit                                                  ? "culprit"
                              : leading != nullptr && contains(leading->victims, rank) ? "victim"
                                                                                       : "other"},
                     {"last", page_us(run, state->last_seen)},
                     {"bars", PageJson::array()}};
    if (const std::optional<TimeNs> death = page_death(run, *state)) {
      lane["died"] = page_us(run, *death);
    }
    // Who left in good order while others wait for it.
    if (const std::optional<TimeNs> exit = page_exit(run, *state); exit && parted != 0) {
      lane["exited"] = page_us(run, *exit);
    }
    if (const auto silent = silent_since(run, *state); silent && parted != 0) {
      lane["silent"] = page_us(run, *silent);
    }
    for (const Bar& bar : bars) {
      const bool named = bar.communicator && std::string_view(bar.kind) != "instead";
      const std::string name = named ? run.communicators[*bar.communicator].name : "";
      lane["bars"].push_back({page_us(run, bar.begin), page_us(run, bar.end), texts.index(name),
                              bar.sequence, texts.index(bar.text), bar.kind});
      if (bar.is_headline) {
        lane["bars"].back().push_back(1);
      }
    }
    json["lanes"].push_back(std::move(lane));
  }
  return json;
}

}  // namespace traintrace
