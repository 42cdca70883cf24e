#include "analyzer/detectors/hang/hang_finding.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/damage.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/detectors/hang/tense.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/operation_size.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/idle_host.h"
#include "analyzer/model/process/job_end.h"
#include "analyzer/model/process/threads_now.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/runs/elsewhere.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/reader/silent_inputs.h"
#include "analyzer/text/values.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

Ranks direct_waiters(const Wait& wait) {
  Ranks ranks;
  for (const Waiter& waiter : wait.waiters) {
    ranks.push_back(waiter.rank);
  }
  return ranks;
}

const Wait& wait_of(const Run& run, const Hang& hang) {
  return run.waits.waits[hang.wait];
}

// What roots did last where they are waited for; those that came equally far are one line.
std::vector<std::string> reached_lines(const Run& run, const Wait& wait, const Ranks& ranks) {
  struct Reached {
    Ranks ranks;
    std::set<TimeNs> times;
  };
  std::map<uint64_t, Reached> by_number;
  const Communicator& communicator = run.communicators[wait.communicator];
  for (const Rank rank : ranks) {
    const Member* const member = member_of(communicator, rank);
    if (wait.kind == WaitKind::kCollective && member != nullptr) {
      const CommunicatorText& text = text_of(run, *member);
      insert(by_number[text.collectives].ranks, rank);
      by_number[text.collectives].times.insert(text.last);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [number, reached] : by_number) {
    const TimeNs first = *reached.times.begin();
    lines.push_back(
        number == 0 ? fmt::format("{} {} entered no collective of it", ranks_text(reached.ranks),
                                  reached.ranks.size() == 1 ? "has" : "have")
                    : fmt::format("{} had entered #{}{}{}", ranks_text(reached.ranks), number,
                                  first == 0 ? "" : " at " + run_time(run, first),
                                  first == 0 || reached.times.size() == 1 ? "" : " or later"));
  }
  return lines;
}

// "rank 3 died of signal 9 (Killed) at +2.3 s while it waited there: the others would wait without
// that".
void add_deaths(const Run& run, const Wait& wait, Finding& finding) {
  for (const Waiter& waiter : wait.waiters) {
    const RankState& state = *state_of(run, waiter.rank);
    const int ended = trace_of(run, state).wait_status;
    if (state.life.evidence == EndEvidence::kNoted && ended >= 0 && WIFSIGNALED(ended) &&
        !is_stop_signal(WTERMSIG(ended)) && ended_early(run, state)) {
      finding.evidence.push_back(fmt::format(
          "rank {} died of {} at {} while it waited there: the others would wait without that",
          waiter.rank.value, signal_text(WTERMSIG(ended)), run_time(run, state.life.ended)));
    }
  }
}

// "was ended by signal 15 (Terminated)", "exited with status 143, as after signal 15
// (Terminated),"; empty: by itself, or nobody noted it.
std::string ended_from_outside_text(const RankEnd& end) {
  const bool noted = end.state->life.evidence == EndEvidence::kNoted;
  if (end.signal != 0) {
    return noted ? "was ended by " + signal_text(end.signal) : "";
  }
  return end.by() == EndedBy::kStop ? fmt::format("exited with status {}, as after {},", end.status,
                                                  signal_text(end.status - kStatusOfSignals))
                                    : "";
}

// "rank 2 was ended by signal 15 (Terminated) at +72.000 s, after others had waited for it for
// 70.7 s": that is no reason.
void add_ends_of_missing(const Run& run, const Hang& hang, Finding& finding) {
  if (hang.fate != Fate::kAlive) {
    return;
  }
  for (const RankEnd& end : failures_of(run)) {
    const std::string text =
        contains(hang.roots, end.state->rank) ? ended_from_outside_text(end) : "";
    TimeNs since = end.time;
    for (const Waiter& waiter : wait_of(run, hang).waiters) {
      since = std::min(since, waiter.since);
    }
    if (!text.empty()) {
      finding.evidence.push_back(fmt::format(
          "rank {} {} at {}, after others had waited for it for {}", end.state->rank.value, text,
          run_time(run, end.time), seconds(elapsed(since, end.time))));
    }
  }
}

void add_evidence(const Run& run, const Hang& hang, Finding& finding) {
  const Wait& wait = wait_of(run, hang);
  if (wait.details.enter != 0) {
    finding.evidence.push_back(arguments_text(wait.operation, wait.details));
  }
  finding.evidence.push_back(wait_text(run, wait));
  Ranks untraced = hang.roots;
  std::erase_if(untraced, [&](Rank rank) { return state_of(run, rank) != nullptr; });
  if (!untraced.empty()) {
    finding.evidence.push_back(ranks_text(untraced) + " " + no_trace_text(run, untraced));
  }
  Ranks traced = hang.roots;
  std::erase_if(traced, [&](Rank rank) { return state_of(run, rank) == nullptr; });
  add_lines(reached_lines(run, wait, traced), finding.evidence);
  add_lines(last_call_lines(run, traced), finding.evidence);
  add_lines(sampled_lines(run, traced), finding.evidence);
  Ranks aborted;
  for (const Waiter& waiter : wait.waiters) {
    if (state_of(run, waiter.rank)->last_seen > waiter.until) {
      aborted.push_back(waiter.rank);
    }
  }
  if (!aborted.empty()) {
    finding.evidence.push_back(ranks_text(aborted) +
                               " gave the communicator up: what they report is a consequence");
  }
  add_deaths(run, wait, finding);
  add_ends_of_missing(run, hang, finding);
  std::vector<const Wait*> behind;
  for (const Wait& other : run.waits.waits) {
    if (&other != &wait &&
        std::any_of(other.waiters.begin(), other.waiters.end(),
                    [&](const Waiter& waiter) { return contains(hang.victims, waiter.rank); })) {
      behind.push_back(&other);
    }
  }
  std::vector<std::string> held = wait_lines(run, behind);
  for (std::string& line : held) {
    line.insert(0, kHeldUp);
  }
  add_lines(held, finding.evidence);
}

void add_doubts(const Doubts& doubts, Finding& finding) {
  const std::pair<bool, const char*> lines[] = {
      {doubts.lost_records, "not a proof: records of these ranks were lost"},
      {doubts.missing_traces, "not a proof: traces of some ranks are not among these"},
      {doubts.truncated, "not a proof: a trace is truncated"},
      {doubts.corrupt, "not a proof: a part of a trace cannot be read"},
      {doubts.clocks, "not a proof: how the hosts' clocks differ is not known well enough"},
      {doubts.dumps,
       "not a proof: dumps of Flight Recorder do not say when they were made; that is taken to be "
       "when the first operation exceeded its time limit, or when the files were written"},
      {doubts.undated,
       "nothing says for how long anybody has waited: that the job hung is taken from all of it "
       "waiting for these ranks, and a job that runs may look the same for a moment; copy dumps "
       "with their times (cp -p, rsync -t)"}};
  for (const auto& [holds, line] : lines) {
    if (holds) {
      finding.evidence.push_back(line);
    }
  }
}

// Where it stands, if somebody looked and it stood still; else where the recorder saw it since its
// last call, or made that.
std::optional<CodePlace> place_of(const Run& run, Rank rank) {
  const RankState* state = state_of(run, rank);
  if (state == nullptr) {
    return std::nullopt;
  }
  const ThreadNow* thread = working_thread(run, *state);
  const auto seen = thread != nullptr && thread->steady ? place_now(*thread, rank) : std::nullopt;
  const auto activity = activity_of(run, *state);
  const auto sampled = state->sampled
                           ? user_place(trace_of(run, *state), rank, state->sampled->stack)
                           : std::nullopt;
  return seen       ? seen
         : sampled  ? sampled
         : activity ? user_place(trace_of(run, *state), rank, activity->stack)
                    : std::nullopt;
}

void add_places(const Run& run, const Hang& hang, Finding& finding) {
  constexpr size_t kMostPlaces = 64;
  for (size_t i = 0; i < std::min(hang.roots.size(), kMostPlaces); ++i) {
    const auto place = place_of(run, hang.roots[i]);
    if (place) {
      finding.where.push_back(*place);
    }
  }
  for (const Waiter& waiter : wait_of(run, hang).waiters) {
    if (const auto place = user_place(run.processes[waiter.process], waiter.rank, waiter.stack)) {
      finding.where.push_back(*place);
      break;
    }
  }
}

bool lost_something(const ProcessTrace& trace) {
  return std::any_of(trace.losses.begin(), trace.losses.end(), [](const LossText& loss) {
    return loss.count > 0 && loss.severity == "warning";
  });
}

}  // namespace

std::string wait_text(const Run& run, const Wait& wait) {
  TimeNs since = 0;
  TimeNs waited = 0;
  for (const Waiter& waiter : wait.waiters) {
    since = since == 0 ? waiter.since : std::min(since, waiter.since);
    waited = std::max(waited, elapsed(waiter.since, waiter.until));
  }
  const Waiter& first = wait.waiters.front();
  const auto place = user_place(run.processes[first.process], first.rank, first.stack);
  const Ranks direct = direct_waiters(wait);
  return fmt::format("{} {} in {} since {}, {}{}", ranks_text(direct), waits_word(run, direct),
                     operation_text(run, wait), run_time(run, since),
                     wait_length_text(run.processes[first.process], seconds(waited)),
                     place ? fmt::format(", called at {}", place_text(*place)) : "");
}

static bool arguments_are_known(const OperationText& operation) {
  return operation.count != 0 || operation.data_type >= 0;
}

std::optional<uint64_t> bytes_of(const OperationText& operation) {
  uint64_t bytes = 0;
  const uint64_t each = bytes_of_type(operation.data_type);
  return each == 0 || !is_size_known(operation) ||
                 __builtin_mul_overflow(operation.count, each, &bytes)
             ? std::nullopt
             : std::optional(bytes);
}

std::string arguments_text(const std::string& function, const OperationText& operation) {
  if (!arguments_are_known(operation)) {
    return function;
  }
  const std::string type =
      operation.data_type < 0 ? "elements" : data_type_name(operation.data_type);
  std::string text = is_size_known(operation)
                         ? fmt::format("{} of {} {}", function, operation.count, type)
                         : fmt::format("{} of {}", function, type);
  if (const auto bytes = bytes_of(operation)) {
    text += fmt::format(" ({} bytes)", *bytes);
  }
  if (operation.reduction >= 0) {
    text += ", " + reduction_name(operation.reduction);
  }
  if (operation.collective && operation.peer >= 0) {
    text += fmt::format(", root {}", operation.peer);
  }
  return text;
}

Doubts doubts_about(const Run& run, const Hang& hang) {
  Doubts doubts;
  doubts.missing_traces = !run.missing.empty();
  doubts.undated = hang.assumed;
  const Wait& wait = wait_of(run, hang);
  const auto look_at = [&](const ProcessTrace& trace) {
    doubts.dumps = doubts.dumps || is_flight_dump(trace);
    doubts.lost_records = doubts.lost_records || lost_something(trace);
    for (const ReadError& error : trace.errors) {
      bool& doubt = error.truncated ? doubts.truncated : doubts.corrupt;
      doubt = doubt || are_calls_damaged(trace);
    }
  };
  for (const Rank rank : hang.roots) {
    if (const RankState* state = state_of(run, rank)) {
      look_at(trace_of(run, *state));
      for (const Waiter& waiter : wait.waiters) {
        const TimeNs off =
            uncertainty_between(run, trace_of(run, *state), run.processes[waiter.process]);
        doubts.clocks = doubts.clocks || (off != 0 && off >= hang.waited);
      }
    }
  }
  for (const Waiter& waiter : wait.waiters) {
    look_at(run.processes[waiter.process]);
  }
  if (may_hide_a_rank(run)) {
    for (const ReadError& error : run.unreadable) {
      (error.forbidden || is_silent_file(error.file) ? doubts.missing_traces
       : error.truncated                             ? doubts.truncated
                                                     : doubts.corrupt) = true;
    }
  }
  return doubts;
}

bool any_doubt(const Run& run, bool Doubts::*doubt) {
  return std::any_of(run.waits.hangs.begin(), run.waits.hangs.end(),
                     [&](const Hang& hang) { return doubts_about(run, hang).*doubt; });
}

std::string parted_text(const Ranks& twins, const Ranks& parted) {
  return twins.size() == 1
             ? fmt::format("{} runs the same program: up to there it made the same calls as {}",
                           ranks_text(twins), ranks_text(parted))
             : fmt::format(
                   "{} run the same program: up to there they made the same calls as {}, "
                   "and since then the same as each other",
                   ranks_text(twins), ranks_text(parted));
}

bool is_minority(const Hang& hang) {
  return hang.roots.size() < hang.victims.size();
}

Finding hang_finding(const Run& run, const Hang& hang, std::string_view code) {
  const Wait& wait = wait_of(run, hang);
  const Communicator& communicator = run.communicators[wait.communicator];
  Finding finding;
  finding.code = code;
  finding.severity = catalogue_row(code)->severity;
  finding.root = true;
  finding.victims = hang.victims;
  finding.communicator = {communicator.id, communicator.name, communicator.size};
  if (wait.sequence != 0) {
    finding.sequence = wait.sequence;
  }
  finding.operation = wait.operation;
  const Ranks direct = direct_waiters(wait);
  Ranks behind;
  std::set_difference(hang.victims.begin(), hang.victims.end(), direct.begin(), direct.end(),
                      std::back_inserter(behind));
  finding.sides = {hang.roots, direct};
  if (!behind.empty()) {
    finding.sides.push_back(behind);
  }
  finding.values = {{"waited_ns", hang.waited}};
  const auto bytes = wait.details.enter == 0 ? std::nullopt : bytes_of(wait.details);
  if (bytes) {
    finding.values.emplace_back("bytes", static_cast<int64_t>(*bytes));
  }
  add_places(run, hang, finding);
  add_evidence(run, hang, finding);
  add_doubts(doubts_about(run, hang), finding);
  return finding;
}

std::string operation_text(const Run& run, const Wait& wait) {
  const Communicator& communicator = run.communicators[wait.communicator];
  const std::string name =
      wait.operation.empty() ? "collective" : name_of_call(wait.operation, wait.details);
  return fmt::format("{}{} on communicator {}", name,
                     wait.sequence == 0 ? "" : fmt::format(" #{}", wait.sequence),
                     label_of(run, communicator));
}

static bool are_over(const Run& run, const Ranks& ranks) {
  return !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), [&](Rank rank) {
    const RankState* const state = state_of(run, rank);
    return state != nullptr && has_ended(*state);
  });
}

const char* waits_word(const Run& run, const Ranks& ranks) {
  return are_over(run, ranks) ? "waited" : ranks.size() == 1 ? "waits" : "wait";
}

const char* is_word(const Run& run, const Ranks& ranks) {
  const bool one = ranks.size() == 1;
  return are_over(run, ranks) ? (one ? "was" : "were") : one ? "is" : "are";
}

std::string waiting_text(const Run& run, const Wait& wait) {
  const Ranks direct = direct_waiters(wait);
  return fmt::format(
      "{} {}", direct.size() == 1 ? ranks_text(direct) : fmt::format("{} ranks", direct.size()),
      waits_word(run, direct));
}

std::string waiting_text(const Run& run, const Hang& hang) {
  return waiting_text(run, wait_of(run, hang));
}

std::string further_text(const Run& run, const Hang& hang) {
  const Ranks direct = direct_waiters(wait_of(run, hang));
  Ranks more;
  std::set_difference(hang.victims.begin(), hang.victims.end(), direct.begin(), direct.end(),
                      std::back_inserter(more));
  return more.empty() ? ""
                      : fmt::format(", and {} more {} for {}", more.size(), waits_word(run, more),
                                    direct.size() == 1 ? "it" : "them");
}

std::string never_text(const Run& run, const Ranks& ranks, std::string_view done) {
  const bool may_still = run.live && std::any_of(ranks.begin(), ranks.end(), [&](Rank rank) {
                           const RankState* const state = state_of(run, rank);
                           return state == nullptr || !has_ended(*state);
                         });
  return fmt::format("{} {}",
                     !may_still          ? "never"
                     : ranks.size() == 1 ? "has not"
                                         : "have not",
                     done);
}

std::string seconds(TimeNs duration) {
  const double value = static_cast<double>(duration) / 1e9;
  if (duration > 0 && duration < 100'000) {  // "5.9e-05 s" is no figure for people
    return fmt::format("{:.3g} us", value * 1e6);
  }
  return value < 10 ? fmt::format("{:.3g} s", value) : fmt::format("{:.1f} s", value);
}

std::string wait_length_text(const ProcessTrace& trace, const std::string& duration) {
  const auto made = trace.facts.find("dump-time");
  return made != trace.facts.end() && made->second == "assumed"
             ? "for " + duration + ", until the first time limit"
             : "for " + duration;
}

std::string signal_text(int signal) {
  const char* const name = strsignal(signal);
  return fmt::format("signal {} ({})", signal, name == nullptr ? "unknown" : name);
}

std::string run_time(const Run& run, TimeNs time) {
  return fmt::format("{:+.3f} s", static_cast<double>(elapsed(run.start, time)) / 1e9);
}

std::string halt_text(const RankState& state) {
  switch (state.life.halt) {
    case Halt::kNot:
      break;
    case Halt::kStopped:
      return "stopped (SIGSTOP or a debugger)";
    case Halt::kTraced:
      return "stopped by a debugger";
    case Halt::kFrozen:
      return "frozen with its cgroup (as `docker pause` does)";
  }
  return "";
}

const char* no_trace_text(const Run& run, const Ranks& ranks) {
  return are_elsewhere(run, ranks) ? "left no trace here, but on another host"
         : run.unreadable.empty()  ? "left no trace"
                                   : "left no trace that can be read";
}

}  // namespace traintrace
