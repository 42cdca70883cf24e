#include "analyzer/detectors/hang/rank_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

enum class LastCallKind : uint8_t {
  kOther,   // `text` says it
  kInside,  // it has not returned
  kPolls,
  kReturned,
};

struct LastCall {
  LastCallKind kind = LastCallKind::kOther;
  std::string text;  // the call and its place; of kOther all that follows "rank 2"
  bool ended = false;
  TimeNs time = 0;
  uint64_t queries = 0;
};

LastCall last_call_of(const Run& run, Rank rank) {
  const RankState* const state = state_of(run, rank);
  if (state == nullptr) {
    return {LastCallKind::kOther, fmt::format(" {}", no_trace_text(run, {rank}))};
  }
  const auto activity = activity_of(run, *state);
  if (!activity) {
    return {LastCallKind::kOther, ": no call is recorded"};
  }
  const ProcessTrace& trace = trace_of(run, *state);
  if (const std::string held = halt_text(*state); !held.empty()) {
    return {LastCallKind::kOther, fmt::format(", process {}, is {}; its last call was {}",
                                              trace.pid, held, activity->call)};
  }
  if (state->ending == Ending::kRunning &&
      elapsed(state->last_seen, end_for(run, trace)) > kDeadAfter) {
    return {LastCallKind::kOther,
            fmt::format(" is there, but was last heard of at {}: its process may be stopped; its "
                        "last call was {}",
                        run_time(run, state->last_seen), activity->call)};
  }
  const auto place = user_place(trace, rank, activity->stack);
  return {activity->open          ? LastCallKind::kInside
          : activity->queries > 0 ? LastCallKind::kPolls
                                  : LastCallKind::kReturned,
          activity->call + (place ? " at " + place_text(*place) : ""), has_ended(*state),
          activity->time, activity->queries};
}

// Of ranks whose last calls are the same but for their times.
std::string text_of(const Run& run, const Ranks& ranks, const std::vector<LastCall>& calls) {
  const LastCall& first = calls.front();
  const bool one = ranks.size() == 1;
  const auto [earliest, latest] =
      std::minmax_element(calls.begin(), calls.end(),
                          [](const LastCall& a, const LastCall& b) { return a.time < b.time; });
  const std::string since = run_time(run, earliest->time);
  const std::string until = run_time(run, latest->time);
  const std::string when = since + (since == until ? "" : " or later");
  const std::string who = ranks_text(ranks);
  switch (first.kind) {
    case LastCallKind::kOther:
      break;
    case LastCallKind::kInside:
      return fmt::format("{} {} inside {}, since {}", who,
                         first.ended ? (one ? "was" : "were")
                         : one       ? "is"
                                     : "are",
                         first.text, when);
    case LastCallKind::kPolls: {
      uint64_t most = 0;
      for (const LastCall& call : calls) {
        most = std::max(most, call.queries);
      }
      return fmt::format("{} {} {}: {}{} times, the last at {}", who,
                         first.ended ? "polled"
                         : one       ? "polls"
                                     : "poll",
                         first.text, one ? "" : "each up to ", most, until);
    }
    case LastCallKind::kReturned:
      return fmt::format("{}: {} last call was {}, at {}", who, one ? "its" : "their", first.text,
                         when);
  }
  return who + first.text;
}

// From the newest one up to `until` back, as long as `take` says so.
template <class Take>
void for_each_placed_call(const Run& run, Rank rank, TimeNs until, Take take) {
  const RankState* const state = state_of(run, rank);
  if (state == nullptr) {
    return;
  }
  const ProcessTrace& trace = trace_of(run, *state);
  uint32_t without = 0;  // the same stack again and again, as of a loop at the end
  for (auto event = trace.events.rbegin(); event != trace.events.rend(); ++event) {
    if (event->moment || event->enter_lost || event->enter > until || event->stack == without) {
      continue;
    }
    const auto place = user_place(trace, rank, event->stack);
    if (!place || place->language != "python") {
      without = event->stack;
    } else if (!take(PlacedCall{*place, call_name(trace, event->call), event->enter})) {
      return;
    }
  }
}

std::string called_at(const Run& run, const Wait& wait) {
  const Waiter& first = wait.waiters.front();
  const auto place = user_place(run.processes[first.process], first.rank, first.stack);
  return place ? ", called at " + place_text(*place) : "";
}

std::string text_of(const Run& run, const std::vector<const Wait*>& waits,
                    const std::string& place) {
  if (waits.size() == 1) {
    return wait_text(run, *waits.front());
  }
  Ranks ranks;
  TimeNs since = 0;
  TimeNs last = 0;
  TimeNs waited = 0;
  for (const Wait* const wait : waits) {
    for (const Waiter& waiter : wait->waiters) {
      insert(ranks, waiter.rank);
      since = since == 0 ? waiter.since : std::min(since, waiter.since);
      last = std::max(last, waiter.since);
      waited = std::max(waited, elapsed(waiter.since, waiter.until));
    }
  }
  const Wait& first = *waits.front();
  const std::string from = run_time(run, since);
  return fmt::format(
      "{} wait in {} on {} since {}{}, {}{}", ranks_text(ranks),
      first.operation.empty() ? "collectives" : first.operation, communicators_text(run, waits),
      from, from == run_time(run, last) ? "" : " or later",
      wait_length_text(run.processes[first.waiters.front().process], seconds(waited)), place);
}

}  // namespace

std::optional<PlacedCall> last_placed_call(const Run& run, Rank rank, TimeNs until) {
  std::optional<PlacedCall> last;
  for_each_placed_call(run, rank, until, [&](PlacedCall call) {
    last = std::move(call);
    return false;
  });
  return last;
}

std::optional<PlacedCall> call_before_pause(const Run& run, Rank rank, TimeNs from, TimeNs until) {
  std::optional<PlacedCall> found;
  TimeNs longest = 0;
  TimeNs next = until;
  for_each_placed_call(run, rank, until, [&](PlacedCall call) {
    const TimeNs pause = elapsed(call.time, next);
    next = call.time;
    if (pause > longest) {
      longest = pause;
      found = std::move(call);
    }
    return next > from;
  });
  return found;
}

std::string placed_text(const Run& run, const PlacedCall& call) {
  return fmt::format("{} at {}, at {}", call.call, place_text(call.place),
                     run_time(run, call.time));
}

std::optional<TimeNs> silent_since(const Run& run, const RankState& state) {
  const bool is_known = state.life.last_seen >= run.start;  // of profiles nothing was looked at
  return is_known && !has_ended(state) && ended_early(run, state) ? std::optional(state.last_seen)
                                                                  : std::nullopt;
}

std::string last_call_text(const Run& run, Rank rank) {
  return text_of(run, {rank}, {last_call_of(run, rank)});
}

std::vector<std::string> last_call_lines(const Run& run, const Ranks& ranks) {
  struct Same {
    Ranks ranks;
    std::vector<LastCall> calls;
  };
  const auto key = [](const LastCall& call) { return std::tie(call.kind, call.text, call.ended); };
  std::vector<Same> all;
  for (const Rank rank : ranks) {
    LastCall call = last_call_of(run, rank);
    auto same = std::find_if(all.begin(), all.end(), [&](const Same& each) {
      return call.kind != LastCallKind::kOther && key(each.calls.front()) == key(call);
    });
    same = same == all.end() ? all.insert(all.end(), Same()) : same;
    insert(same->ranks, rank);
    same->calls.push_back(std::move(call));
  }
  std::vector<std::string> lines;
  lines.reserve(all.size());
  for (const Same& same : all) {
    lines.push_back(text_of(run, same.ranks, same.calls));
  }
  return lines;
}

std::vector<std::string> sampled_lines(const Run& run, const Ranks& ranks) {
  std::vector<std::string> lines;
  for (const Rank rank : ranks) {
    const RankState* const state = state_of(run, rank);
    if (state == nullptr || !state->sampled) {
      continue;
    }
    const SampledPlace& sampled = *state->sampled;
    if (const auto place = user_place(trace_of(run, *state), rank, sampled.stack)) {
      const std::string from = run_time(run, sampled.first);
      lines.push_back(
          sampled.looks == 1
              ? fmt::format("rank {}: since its last call it was seen at {}, at {}", rank.value,
                            place_text(*place), from)
              : fmt::format(
                    "rank {}: since its last call it was seen {} times at {}, from {} to {}",
                    rank.value, sampled.looks, place_text(*place), from,
                    run_time(run, sampled.last)));
    }
  }
  return lines;
}

void add_lines(const std::vector<std::string>& lines, std::vector<std::string>& evidence) {
  const size_t shown = std::min(lines.size(), kEvidenceLines);
  evidence.insert(evidence.end(), lines.begin(), lines.begin() + static_cast<ptrdiff_t>(shown));
  if (shown < lines.size()) {
    evidence.push_back(fmt::format("and {} more like the last one", lines.size() - shown));
  }
}

std::string purpose_of(const Run& run, const Wait& wait) {
  const Communicator& communicator = run.communicators[wait.communicator];
  const std::string label = label_of(run, communicator);
  if (!communicator.named && label.starts_with("of ")) {  // "of 2 ranks 0,1"
    return "of " + label.substr(label.find(' ', 3) + 1);
  }
  return label.substr(0, label.find(" ("));
}

std::string communicators_text(const Run& run, const std::vector<const Wait*>& waits) {
  constexpr size_t kMostNames = 3;
  std::set<size_t> communicators;
  std::set<std::string> names;
  for (const Wait* const wait : waits) {
    communicators.insert(wait->communicator);
    names.insert(purpose_of(run, *wait));
  }
  if (communicators.size() == 1) {
    return "communicator " + label_of(run, run.communicators[*communicators.begin()]);
  }
  std::string text;
  size_t told = 0;
  const bool lists = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.find(',') != std::string::npos;
  });
  for (const std::string& name : names) {
    if (told++ < kMostNames) {
      text += (text.empty() ? "" : lists ? "; " : ", ") + name;
    }
  }
  return fmt::format("{} communicators ({}{})", communicators.size(), text,
                     names.size() <= kMostNames ? ""
                     : lists                    ? "; .."
                                                : ", ..");
}

std::vector<std::string> wait_lines(const Run& run, const std::vector<const Wait*>& waits) {
  struct Same {
    std::string place;
    std::vector<const Wait*> waits;
  };
  std::vector<Same> all;
  for (const Wait* const wait : waits) {
    const std::string place = called_at(run, *wait);
    auto same = std::find_if(all.begin(), all.end(), [&](const Same& each) {
      return each.place == place && each.waits.front()->operation == wait->operation &&
             each.waits.front()->kind == wait->kind;
    });
    same = same == all.end() ? all.insert(all.end(), Same{place, {}}) : same;
    same->waits.push_back(wait);
  }
  std::vector<std::string> lines;
  lines.reserve(all.size());
  for (const Same& same : all) {
    lines.push_back(text_of(run, same.waits, same.place));
  }
  return lines;
}

}  // namespace traintrace
