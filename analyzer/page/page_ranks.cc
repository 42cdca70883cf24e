// How far every rank got.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/memory/device_peaks.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/page/page_data.h"
#include "analyzer/text/units.h"
#include "analyzer/timeline/collectives/arrivals.h"
#include "analyzer/timeline/profile.h"

namespace traintrace {
namespace {

// Numbers in a table of the page: no communicator's members are cut in two.
constexpr size_t kMostMembers = 20'000;

const char* state_of_rank(const Run& run, const RankState& state, const Ranks& culprits,
                          const Ranks& waiting) {
  if (contains(culprits, state.rank)) {
    return "culprit";
  }
  if (contains(waiting, state.rank)) {
    return "waiting";
  }
  if (exited_normally(run, state)) {
    return "done";
  }
  return state.ending == Ending::kExited ? "failed"
         : state.ending == Ending::kGone ? "dead"
         : silent_since(run, state)      ? "silent"
                                         : "moving";
}

// Its victims are blocked; those of one about time, numbers or memory go on.
bool is_about_waiting(const Finding& finding) {
  constexpr std::string_view kParts[] = {"collective.", "p2p.", "comm.", "host.", "device."};
  return finding.severity != Severity::kInfo &&
         (finding.code == "run.unexplained" ||
          std::any_of(std::begin(kParts), std::end(kParts),
                      [&](std::string_view part) { return finding.code.starts_with(part); }));
}

Ranks waiting_ranks(const Run& run, const ShownWaits& shown, const std::vector<Finding>& findings) {
  Ranks ranks;
  for (const Hang& hang : run.waits.hangs) {
    for (const Rank rank : hang.victims) {
      insert(ranks, rank);
    }
  }
  const auto add = [&](Rank rank) {
    const RankState* const state = state_of(run, rank);
    if (state != nullptr && !exited_normally(run, *state)) {
      insert(ranks, rank);
    }
  };
  for (const Wait& wait : shown.waits) {
    for (const Waiter& waiter : wait.waiters) {
      add(waiter.rank);
    }
  }
  for (const Stall& stall : shown.of_verdict ? shown.stalls : std::vector<Stall>()) {
    for (const StalledRank& stalled : stall.ranks) {
      add(stalled.rank);
    }
  }
  for (const Finding& finding : findings) {
    for (const Rank rank : is_about_waiting(finding) ? finding.victims : Ranks()) {
      const RankState* const state = state_of(run, rank);
      if (state == nullptr || !exited_normally(run, *state)) {  // or it waits no more
        insert(ranks, rank);
      }
    }
  }
  return ranks;
}

int device_of(const ProcessTrace& trace, const RankState& state) {
  if (state.device >= 0) {
    return state.device;
  }
  for (const CommunicatorText& communicator : trace.communicators) {
    if (communicator.device >= 0) {
      return communicator.device;
    }
  }
  return -1;
}

PageJson peak_of(const ProcessTrace& trace) {
  std::optional<uint64_t> most;
  for (const DevicePeak& peak : device_peaks(trace).devices) {
    const auto bytes = peak.reserved ? peak.reserved : peak.allocated;
    most = bytes ? std::max(most.value_or(0), *bytes) : most;
  }
  return most ? PageJson(*most) : PageJson();
}

// What each rank itself made collectives later than the median, in all; ns.
std::map<int, int64_t> lateness(const Run& run) {
  std::map<int, int64_t> late;
  for (const Arrivals& arrivals :
       run.profile == nullptr ? std::vector<Arrivals>() : run.profile->groups) {
    for (const OwnLateness& own :
         arrivals.usable() ? own_lateness(arrivals) : std::vector<OwnLateness>()) {
      if (const auto rank = run.profile->timelines[arrivals.members[own.member]].rank) {
        late[*rank] += own.charged_ns;
      }
    }
  }
  return late;
}

std::map<int, int64_t> step_times(const Run& run) {
  std::map<int, int64_t> times;
  if (run.profile != nullptr) {
    for (const DeviceProfile& device : run.profile->devices) {
      times[device.rank.value] = device.per_step(device.times.window_ns);
    }
  }
  return times;
}

PageJson figure(const std::map<int, int64_t>& figures, Rank rank) {
  const auto found = figures.find(rank.value);
  return found == figures.end() ? PageJson() : PageJson(found->second);
}

}  // namespace

Ranks page_culprits(const Finding* leading, const std::vector<Finding>& findings) {
  Ranks culprits;
  for (const Finding& finding : findings) {
    const bool root = &finding == leading || (finding.root && finding.severity == Severity::kError);
    if (root && !finding.code.starts_with("latency.") && !finding.code.starts_with("run.h")) {
      for (const Rank rank : finding.culprits) {
        insert(culprits, rank);
      }
    }
  }
  return culprits;
}

std::optional<TimeNs> page_death(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  if (exited_normally(run, state) || !has_ended(state)) {
    return std::nullopt;
  }
  const TimeNs noted = state.ending == Ending::kExited ? trace.exited : trace.gone;
  return noted != 0 ? noted : state.last_seen;
}

std::optional<TimeNs> page_exit(const Run& run, const RankState& state) {
  const TimeNs exited = trace_of(run, state).exited;
  return exited_normally(run, state) && exited != 0 ? std::optional(exited) : std::nullopt;
}

std::string page_activity(const Activity& activity) {
  return activity.queries > 0 ? fmt::format("{} x {}", activity.call, count_text(activity.queries))
         : activity.open      ? activity.call
                              : "after " + activity.call;
}

PageJson page_ranks(const Run& run, const ShownWaits& shown, const std::vector<Finding>& findings,
                    const Ranks& culprits, TextTable& texts) {
  PageJson json = {
      {"rank", PageJson::array()},   {"host", PageJson::array()},  {"pid", PageJson::array()},
      {"gpu", PageJson::array()},    {"state", PageJson::array()}, {"last", PageJson::array()},
      {"place", PageJson::array()},  {"at", PageJson::array()},    {"ended", PageJson::array()},
      {"exited", PageJson::array()}, {"peak", PageJson::array()},  {"late", PageJson::array()},
      {"step", PageJson::array()}};
  const Ranks waiting = waiting_ranks(run, shown, findings);
  const std::map<int, int64_t> late = lateness(run);
  const std::map<int, int64_t> steps = step_times(run);
  for (const RankState& state : run.ranks) {
    const ProcessTrace& trace = trace_of(run, state);
    const auto activity = activity_of(run, state);
    json["rank"].push_back(state.rank.value);
    json["host"].push_back(texts.index(trace.host));
    json["pid"].push_back(trace.pid);
    json["gpu"].push_back(device_of(trace, state));
    json["state"].push_back(texts.index(state_of_rank(run, state, culprits, waiting)));
    json["last"].push_back(texts.index(activity ? activity->call : ""));
    json["place"].push_back(
        texts.index(activity ? page_place(trace, state.rank, activity->stack) : ""));
    json["at"].push_back(activity ? page_us(run, activity->time) : 0);
    const std::optional<TimeNs> death = page_death(run, state);
    json["ended"].push_back(death ? PageJson(page_us(run, *death)) : PageJson());
    const std::optional<TimeNs> exit = page_exit(run, state);
    json["exited"].push_back(exit ? PageJson(page_us(run, *exit)) : PageJson());
    json["peak"].push_back(peak_of(trace));
    json["late"].push_back(figure(late, state.rank));
    json["step"].push_back(figure(steps, state.rank));
  }
  json["missing"] = page_json(run.missing);
  return json;
}

PageJson page_communicators(const Run& run, const Finding* leading) {
  std::vector<const Communicator*> order;
  for (const Communicator& communicator : run.communicators) {
    order.push_back(&communicator);
  }
  const auto is_leading = [&](const Communicator* communicator) {
    return leading != nullptr && leading->communicator &&
           leading->communicator->id == communicator->id;
  };
  std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
    return is_leading(a) != is_leading(b) ? is_leading(a) : a->members.size() > b->members.size();
  });
  PageJson list = PageJson::array();
  size_t members = 0;
  for (const Communicator* const communicator : order) {
    members += communicator->members.size();
    if (members > kMostMembers) {
      break;
    }
    PageJson own = {{"name", communicator->name},
                    {"size", communicator->size},
                    {"leading", is_leading(communicator)},
                    {"ranks", PageJson::array()},
                    {"seq", PageJson::array()}};
    for (const Member& member : communicator->members) {
      own["ranks"].push_back(member.rank.value);
      own["seq"].push_back(text_of(run, member).collectives);
    }
    list.push_back(std::move(own));
  }
  return list;
}

}  // namespace traintrace
