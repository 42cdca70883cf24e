// What some ranks did around the moment at which they parted.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/threads_now.h"
#include "analyzer/model/waiting/host_functions.h"
#include "analyzer/model/waiting/stalls.h"
#include "analyzer/page/page_data.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

constexpr size_t kMostLanes = 8;
constexpr size_t kMostBars = 120;  // of a lane

struct Bar {
  TimeNs begin = 0, end = 0;
  size_t communicator = 0;
  uint64_t sequence = 0;
  std::string text;
  const char* kind = "done";  // done, enqueued, waits, instead
  uint32_t stack = 0;
  bool collective = false;
  bool is_headline = false;  // what the verdict is about
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
const Waiter* waiter_in(const Run& run, Rank rank, size_t communicator,
                        const OperationText& operation) {
  const auto is_it = [&](const Wait& wait, const Waiter& waiter) {
    const bool message = wait.kind == WaitKind::kReceive || wait.kind == WaitKind::kSend;
    return waiter.rank == rank && message != operation.collective &&
           (message ? waiter.since == operation.enter &&
                          (wait.kind == WaitKind::kReceive) == operation.receive
                    : wait.sequence == operation.sequence);
  };
  for (const Wait& wait : run.waits.waits) {
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

// "ncclAllReduce", "ncclSend to rank 0"
std::string call_text(const Run& run, const Communicator& communicator,
                      const OperationText& operation, const ProcessTrace& trace) {
  const std::string call = call_name(trace, operation.call);
  if (operation.collective || operation.peer < 0) {
    return call;
  }
  const auto peer = std::find_if(
      communicator.members.begin(), communicator.members.end(),
      [&](const Member& member) { return text_of(run, member).rank == operation.peer; });
  return fmt::format("{} {} {} {}", call, operation.receive ? "from" : "to",
                     peer == communicator.members.end() ? "peer" : "rank",
                     peer == communicator.members.end() ? operation.peer : peer->rank.value);
}

bool is_one_of(CommunicatorId id, const std::vector<FindingCommunicator>& communicators) {
  return std::any_of(communicators.begin(), communicators.end(),
                     [&](const FindingCommunicator& each) { return each.id == id; });
}

// Marks what the verdict is about: the collective of its number, by each rank's own count, and of
// messages the last one from the line that the verdict names.
void mark_headline(const Run& run, const RankState& state, const Finding* leading,
                   std::vector<Bar>& bars) {
  if (leading == nullptr || leading->severity == Severity::kInfo) {
    return;
  }
  if (!leading->communicators.empty()) {  // a cycle
    for (Bar& bar : bars) {
      bar.is_headline = std::string_view(bar.kind) == "waits" &&
                        is_one_of(run.communicators[bar.communicator].id, leading->communicators);
    }
    return;
  }
  if (!leading->communicator) {
    return;
  }
  const bool of_messages = leading->code.starts_with("p2p.");
  const auto place = std::find_if(leading->where.begin(), leading->where.end(),
                                  [&](const CodePlace& at) { return at.rank == state.rank; });
  for (auto bar = bars.rbegin(); bar != bars.rend(); ++bar) {
    if (run.communicators[bar->communicator].id != leading->communicator->id || bar->text.empty() ||
        bar->collective == of_messages) {
      continue;
    }
    const bool is_of_number = leading->sequence && bar->sequence >= *leading->sequence &&
                              bar->sequence <= leading->sequence_last.value_or(*leading->sequence);
    const bool is_of_line =
        place != leading->where.end() &&
        page_place(trace_of(run, state), state.rank, bar->stack) == place_text(*place);
    if (of_messages ? is_of_line : is_of_number) {
      bar->is_headline = true;
      if (of_messages) {
        return;
      }
    }
  }
}

std::vector<Bar> bars_of(const Run& run, const RankState& state, const std::vector<Stall>& stalls) {
  const ProcessTrace& trace = trace_of(run, state);
  std::vector<Bar> bars;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const Member* const member = member_of(run.communicators[i], state.rank);
    if (member == nullptr) {
      continue;
    }
    for (const OperationText& operation : text_of(run, *member).recent) {
      Bar bar{operation.enter, std::max(operation.leave, operation.completed), i,
              operation.sequence, call_text(run, run.communicators[i], operation, trace)};
      bar.stack = operation.stack;
      bar.collective = operation.collective;
      // Its host had handed it to the GPU by then; when it was over is not known.
      bar.kind = operation.completed == 0 ? "enqueued" : "done";
      const Waiter* const waiter = waiter_in(run, state.rank, i, operation);
      if (waiter != nullptr ||
          (operation.collective && is_stalled(stalls, state.rank, i, operation.sequence))) {
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
  std::stable_sort(bars.begin(), bars.end(),
                   [](const Bar& a, const Bar& b) { return a.begin < b.begin; });
  if (bars.size() > kMostBars) {
    bars.erase(bars.begin(), bars.end() - kMostBars);
  }
  return bars;
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
      0,
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

// When the first of those that wait entered what they wait in; 0: no rank waits.
TimeNs parted_at(const Run& run, const Finding* leading, const std::vector<Stall>& stalls) {
  TimeNs first = 0;
  if (leading == nullptr || leading->severity == Severity::kInfo) {
    return first;
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
  return first;
}

}  // namespace

PageJson page_lanes(const Run& run, const Finding* leading, const Ranks& culprits,
                    TextTable& texts) {
  const std::vector<Stall> stalls = find_stalls(run);
  const TimeNs parted = parted_at(run, leading, stalls);
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
    std::vector<Bar> bars = bars_of(run, *state, stalls);
    mark_headline(run, *state, leading, bars);
    if (culprit && (bars.empty() || is_over(bars.back()))) {
      add_instead(run, *state, parted, bars);
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
      const std::string name =
          std::string_view(bar.kind) == "instead" ? "" : run.communicators[bar.communicator].name;
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
