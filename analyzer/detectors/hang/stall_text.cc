#include "analyzer/detectors/hang/stall_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/exchanges.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/waiting/host_functions.h"

namespace traintrace {
namespace {

std::string operation_text(const Run& run, const Stall& stall) {
  return fmt::format("{}{} on communicator {}", stall.function,
                     stall.sequence == 0 ? "" : fmt::format(" #{}", stall.sequence),
                     label_of(run, run.communicators[stall.communicator]));
}

std::string function_text(const Run& run, const StalledRank& rank) {
  const ProcessTrace& trace = run.processes[rank.process];
  const HostFunctionText& function = *function_before(run, rank.process, rank.operation);
  const auto place = user_place(trace, rank.rank, function.stack);
  return fmt::format("a function that {} enqueued on {}{} has been running since {}",
                     call_name(trace, function.call),
                     function.stream == rank.operation.stream
                         ? "its stream"
                         : "a stream that its own waits for, by an event,",
                     place ? " at " + place_text(*place) : "", run_time(run, function.entered));
}

const StalledRank* held_by_function(const Run& run, const Stall& stall) {
  const auto held =
      std::find_if(stall.ranks.begin(), stall.ranks.end(), [&](const StalledRank& rank) {
        return contains(stall.suspects, rank.rank) &&
               function_before(run, rank.process, rank.operation) != nullptr;
      });
  return held == stall.ranks.end() ? nullptr : &*held;
}

Ranks all_of(const Stall& stall) {
  Ranks ranks;
  for (const StalledRank& rank : stall.ranks) {
    ranks.push_back(rank.rank);
  }
  return ranks;
}

// ", called at train.py:5 in train_step"; empty: not known.
std::string called_at(const Run& run, const StalledRank& rank) {
  const auto place = user_place(run.processes[rank.process], rank.rank, rank.operation.stack);
  return place ? ", called at " + place_text(*place) : "";
}

// Each state that the GPUs are in, with the ranks that are.
void add_states(const Stall& stall, std::vector<std::string>& lines) {
  constexpr const char* kTexts[] = {
      "whether the GPU has started it is not recorded",
      "the GPU is not yet at it: earlier work on the stream is unfinished",
      "the GPU is executing it",
      "finished",
      "not finished",
      "unknown: it was aborted"};
  static_assert(std::size(kTexts) == static_cast<size_t>(GpuState::kAborted) + 1);
  std::map<GpuState, Ranks> by_state;
  for (const StalledRank& rank : stall.ranks) {
    by_state[rank.gpu].push_back(rank.rank);
  }
  if (by_state.size() == 1 && stall.finished.empty() && by_state.contains(GpuState::kUnknown)) {
    return;  // nothing is told, and what follows says what else is known
  }
  for (const auto& [state, ranks] : by_state) {
    lines.push_back(ranks_text(ranks) + ": " + kTexts[static_cast<size_t>(state)]);
  }
  if (!stall.finished.empty()) {
    lines.push_back(ranks_text(stall.finished) + ": finished");
  }
}

// Called by NCCL, for one of these operations.
bool is_of_operation(const ProcessTrace& trace, const CallRecord& event) {
  return std::any_of(
      trace.communicators.begin(), trace.communicators.end(), [&](const CommunicatorText& text) {
        return std::any_of(text.recent.begin(), text.recent.end(), [&](const OperationText& one) {
          return one.enter <= event.enter && (one.leave == 0 || event.enter <= one.leave);
        });
      });
}

// When the newest operation of that stream was called that is known to be done: all before it is.
TimeNs done_until(const ProcessTrace& trace, uint32_t stream) {
  TimeNs until = 0;
  for (const CommunicatorText& text : trace.communicators) {
    for (const OperationText& one : text.recent) {
      until = one.stream == stream && finished(trace, one) ? std::max(until, one.enter) : until;
    }
  }
  return until;
}

// What the job put on the operation's stream before it and may not be done; newest first, where
// events were read.
std::vector<const CallRecord*> work_before(const Run& run, const StalledRank& rank) {
  constexpr std::string_view kWork[] = {"launch",        "wait",         "memory-operation",
                                        "host-function", "graph-launch", "copy"};
  const ProcessTrace& trace = run.processes[rank.process];
  std::vector<const CallRecord*> work;
  if (rank.operation.stream == 0 || rank.operation.stream > trace.streams.size()) {
    return work;
  }
  const uint64_t handle = trace.streams[rank.operation.stream - 1].handle;
  const TimeNs done = done_until(trace, rank.operation.stream);
  for (auto event = trace.events.rbegin(); event != trace.events.rend(); ++event) {
    const CallSchema* const schema = schema_of(trace, event->call);
    const bool between =
        !event->enter_lost && event->enter > done && event->enter < rank.operation.enter;
    if (between && schema != nullptr &&
        std::find(std::begin(kWork), std::end(kWork), schema->kind) != std::end(kWork) &&
        value_of(trace, *event, "stream") == handle && !is_of_operation(trace, *event)) {
      work.push_back(&*event);
    }
  }
  return work;
}

std::string call_place_text(const Run& run, const StalledRank& rank, const CallRecord& event) {
  const ProcessTrace& trace = run.processes[rank.process];
  const auto place = user_place(trace, rank.rank, event.stack);
  return call_name(trace, event.call) + (place ? " at " + place_text(*place) : "");
}

void add_stream(const Run& run, const StalledRank& rank, std::vector<std::string>& lines) {
  const std::vector<const CallRecord*> work = work_before(run, rank);
  for (size_t i = 0; i < std::min<size_t>(work.size(), 3); ++i) {
    lines.push_back(fmt::format("rank {}: before it on its stream is {}, enqueued at {}",
                                rank.rank.value, call_place_text(run, rank, *work[i]),
                                run_time(run, work[i]->enter)));
  }
}

// "; only rank 2 put something else on its stream before it, cuStreamWaitValue32_v2 at a.py:3,
// which may not end"; empty: most did, or none.
std::string odd_stream_text(const Run& run, const Stall& stall) {
  Ranks odd;
  std::string what;
  for (const StalledRank& rank : stall.ranks) {
    const std::vector<const CallRecord*> work = work_before(run, rank);
    if (!work.empty()) {
      what = odd.empty() ? call_place_text(run, rank, *work.front()) : what;
      insert(odd, rank.rank);
    }
  }
  return odd.empty() || 2 * odd.size() >= stall.ranks.size()
             ? ""
             : fmt::format(
                   "; only {} enqueued something else on {} before it, {}, which may not end",
                   ranks_text(odd), odd.size() == 1 ? "its stream" : "their streams", what);
}

// What the only suspect's stream has before it, if that is one thing; else "something".
std::string blocker_text(const Run& run, const Stall& stall) {
  if (stall.suspects.size() == 1) {
    for (const StalledRank& rank : stall.ranks) {
      const std::vector<const CallRecord*> work = work_before(run, rank);
      if (rank.rank == stall.suspects.front() && work.size() == 1) {
        return call_place_text(run, rank, *work.front());
      }
    }
  }
  return "something";
}

std::string blocked_title(const Run& run, const Stall& stall) {
  const std::string what =
      fmt::format("{} {} {} on the GPU", ranks_text(stall.suspects),
                  never_text(run, stall.suspects, "started"), operation_text(run, stall));
  const StalledRank* const held = held_by_function(run, stall);
  return held != nullptr ? fmt::format("{}: {}", what, function_text(run, *held))
                         : fmt::format("{}: {} before it on the stream does not end", what,
                                       blocker_text(run, stall));
}

// "ranks 4,5 send 52 elements in all in ncclAlltoAll #143 on communicator ep (ranks 4,5), and
// expect 118, for 180.0 s; no culprit: how much goes from whom to whom is not recorded"
std::string uneven_title(const Run& run, const Stall& stall, const Exchanged& all) {
  return fmt::format(
      "{} send {} elements in all in {}, and expect {}, for {}; no culprit: how much goes from "
      "whom to "
      "whom is not recorded",
      ranks_text(all_of(stall)), all.sent, operation_text(run, stall), all.received,
      seconds(stall.waited));
}

// What each of them sends and expects.
void add_amounts(const Run& run, const Stall& stall, std::vector<std::string>& lines) {
  std::vector<std::string> amounts;
  for (const StalledRank& rank : stall.ranks) {
    const Member& member = *member_of(run.communicators[stall.communicator], rank.rank);
    if (const auto own =
            exchanged_in(run.processes[rank.process], member.element, rank.operation)) {
      amounts.push_back(fmt::format("rank {} sends {} elements and expects {}", rank.rank.value,
                                    own->sent, own->received));
    }
  }
  add_lines(amounts, lines);
}

std::string transport_title(const Run& run, const RootStall& root) {
  const Stall& stall = root.stall;
  const bool aborted = std::any_of(stall.ranks.begin(), stall.ranks.end(),
                                   [](const StalledRank& rank) { return rank.aborted; });
  const std::string what =
      stall.known ? fmt::format("{} are all executing {} on the GPU and none completes it",
                                ranks_text(all_of(stall)), operation_text(run, stall))
                  : fmt::format("{} have all entered {} and none is known to have completed it",
                                ranks_text(all_of(stall)), operation_text(run, stall));
  // Messages of a ring that keeps no beginning have no number to be paired by, and what each rank
  // has for each in an all-to-all is not recorded.
  const bool compared =
      std::all_of(stall.ranks.begin(), stall.ranks.end(), [&](const StalledRank& rank) {
        return rank.operation.sequence != 0 &&
               (rank.operation.count != 0 || stall.function != "ncclAlltoAll");
      });
  return fmt::format(
      "{}, for {}{}; all calls {}match{}; no culprit", what, seconds(stall.waited),
      aborted ? ", until the communicator was aborted" : "",
      compared ? "" : "that can be compared ",
      stall.known ? ", which points at the network or transport" : odd_stream_text(run, stall));
}

}  // namespace

std::string stall_title(const Run& run, const RootStall& root) {
  const Stall& stall = root.stall;
  Ranks victims = root.hang == nullptr ? Ranks{} : root.hang->victims;
  std::erase_if(victims, [&](Rank rank) { return contains(stall.finished, rank); });
  const std::string waiting = victims.empty()
                                  ? ""
                                  : fmt::format("; {} wait{} for that", ranks_text(victims),
                                                victims.size() == 1 ? "s" : "");
  switch (stall.kind) {
    case StallKind::kBehind:
      return fmt::format(
          "the GPU{} stalled: {} is enqueued there but unfinished, for {}; {} {} finished it{}",
          (stall.suspects.size() == 1 ? " of " : "s of ") + ranks_text(stall.suspects) +
              (stall.suspects.size() == 1 ? " is" : " are"),
          operation_text(run, stall), seconds(stall.waited), ranks_text(stall.finished),
          stall.finished.size() == 1 ? "has" : "have", waiting);
    case StallKind::kBlocked:
      return blocked_title(run, stall) + waiting;
    case StallKind::kNoRoom:
      return fmt::format(
          "the kernel of {} has no room on {}, where that of another communicator runs, for {}; no "
          "culprit",
          operation_text(run, stall), ranks_text(stall.suspects), seconds(stall.waited));
    case StallKind::kTransport:
      break;
  }
  if (const auto uneven = uneven_exchange(run, stall)) {
    return uneven_title(run, stall, *uneven);
  }
  return transport_title(run, root);
}

std::string young_stall_text(const Run& run, const Stall& stall) {
  Ranks waiting = stall.finished;
  for (const StalledRank& rank : stall.ranks) {
    if (rank.stuck > 0 && !contains(stall.suspects, rank.rank)) {
      insert(waiting, rank.rank);
    }
  }
  const bool one = stall.suspects.size() == 1;
  return fmt::format(
      "{} {} waited {} for {} in {}, which the GPU{} of {} {}", ranks_text(waiting),
      waiting.size() == 1 ? "has" : "have", seconds(stall.waited), ranks_text(stall.suspects),
      operation_text(run, stall), one ? "" : "s", one ? "that rank" : "these ranks",
      stall.kind == StallKind::kBlocked ? (one ? "has not started" : "have not started")
                                        : (one ? "has not finished" : "have not finished"));
}

std::vector<std::string> stall_evidence(const Run& run, const RootStall& root) {
  const Stall& stall = root.stall;
  Ranks callers = all_of(stall);
  for (const Rank rank : run.waits.by_frontier ? Ranks() : stall.finished) {
    insert(callers, rank);
  }
  std::vector<std::string> lines = {
      arguments_text(stall.function, stall.ranks.front().operation) +
          called_at(run, stall.ranks.front()),
      fmt::format("{} had called it by {}", ranks_text(callers), run_time(run, stall.since))};
  if (uneven_exchange(run, stall)) {
    add_amounts(run, stall, lines);
    return lines;
  }
  add_states(stall, lines);
  Ranks looked_at;
  for (const StalledRank& rank : stall.ranks) {
    const bool suspect = contains(stall.suspects, rank.rank);
    if ((!suspect && !stall.suspects.empty()) || lines.size() >= 3 * kEvidenceLines) {
      continue;
    }
    insert(looked_at, rank.rank);
    if (function_before(run, rank.process, rank.operation) != nullptr) {
      lines.push_back(fmt::format("rank {}: {}", rank.rank.value, function_text(run, rank)));
    } else {
      add_stream(run, rank, lines);
    }
    if (const auto holder = holder_of(run, stall, rank); holder && suspect) {
      lines.push_back(fmt::format(
          "rank {}: the kernel of {} #{} on communicator {} runs instead", rank.rank.value,
          call_name(run.processes[rank.process], holder->operation.call),
          holder->operation.sequence, label_of(run, run.communicators[holder->communicator])));
    }
  }
  add_lines(last_call_lines(run, looked_at), lines);
  if (!stall.known && stall.kind == StallKind::kTransport) {
    lines.push_back(
        "which GPU has not started it is not recorded: TRAINTRACE_GPU_PROGRESS=marks records it");
  }
  return lines;
}

const char* stall_advice(const Run& run, const Stall& stall, bool given_up) {
  if (uneven_exchange(run, stall)) {
    return "exchange the split sizes before the all-to-all: what one rank sends must be what the "
           "other expects";
  }
  if (stall.kind == StallKind::kTransport && !stall.known && !odd_stream_text(run, stall).empty()) {
    return "look at what was enqueued before it there: a kernel that does not end, or a wait for a "
           "value that is never written; if it does end, look at the network and NVLink";
  }
  switch (stall.kind) {
    case StallKind::kBehind:
      return "look at that GPU: the kernel's log (Xid), its clocks, what else runs on it";
    case StallKind::kBlocked:
      if (held_by_function(run, stall) != nullptr) {
        return "look at what that function waits for: until it returns, its stream does not go on";
      }
      return "look at what was enqueued on that stream before the operation: a kernel that does "
             "not "
             "end, an event that is never recorded, a host callback that waits";
    case StallKind::kNoRoom:
      return "let operations of different communicators follow one another on one stream, or in "
             "one order by events";
    case StallKind::kTransport:
      break;
  }
  return given_up
             ? "check the network and NVLink; the time limit is a consequence; record the next "
               "run with TRAINTRACE_GPU_PROGRESS=marks"
             : "check the network and NVLink between these ranks, and read NCCL's log "
               "(NCCL_DEBUG=INFO)";
}

}  // namespace traintrace
