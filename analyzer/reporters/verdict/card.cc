#include "analyzer/reporters/verdict/card.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/detectors/lost_time/latency.h"
#include "analyzer/detectors/run/summary.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/reporters/verdict/card_actor.h"
#include "analyzer/reporters/verdict/card_victims.h"
#include "analyzer/reporters/verdict/findings_report.h"
#include "analyzer/reporters/verdict/people_lines.h"
#include "analyzer/reporters/verdict/place_role.h"
#include "analyzer/text/shell_word.h"
#include "analyzer/text/units.h"
#include "analyzer/text/wall_clock.h"

namespace traintrace {
namespace {

constexpr size_t kMostActors = 6;
constexpr const char* kNoCall = "no call is recorded";  // of last_call_text()

// The GPU of that rank; -1: not known.
int device_of(const Run& run, const RankState& state) {
  if (state.device >= 0) {
    return state.device;
  }
  for (const CommunicatorText& communicator : trace_of(run, state).communicators) {
    if (communicator.device >= 0) {
      return communicator.device;
    }
  }
  return -1;
}

// "has been inside", "were inside"
const char* be(bool over, bool many) {
  return over ? (many ? "were" : "was") : many ? "have been" : "has been";
}

// What a rank did last, and when or how often.
struct Doing {
  std::string what, when;
  TimeNs time = 0;  // 0: it is not told
};

// Of each of `many`, or of that one.  The place is left to the frames below, unless these show
// another than `elsewhere`.
Doing doing_of(const Run& run, Rank rank, const std::string& elsewhere, bool many = false) {
  const RankState* const state = state_of(run, rank);
  const auto activity = state == nullptr ? std::nullopt : activity_of(run, *state);
  if (state == nullptr || !activity || state->life.halt != Halt::kNot) {
    std::string text = last_call_text(run, rank);
    const std::string name = fmt::format("rank {}", rank.value);
    const size_t skipped = text.starts_with(name) ? name.size() : 0;
    return {text.substr(std::min(text.find_first_not_of(" :,", skipped), text.size())), "", 0};
  }
  const std::string time = run_time(run, activity->time);
  const bool over = has_ended(*state);
  std::string what;
  if (state->ending == Ending::kExited) {
    what = fmt::format("exited with status {}; ", trace_of(run, *state).exit_status);
  } else if (state->ending == Ending::kGone) {
    what = many ? "are gone; " : "is gone; ";
  } else if (const auto silent = silent_since(run, *state)) {
    what = fmt::format("silent since {}; ", run_time(run, *silent));
  }
  const std::string at = elsewhere.empty() ? "" : " at " + elsewhere;
  if (activity->open) {
    what += fmt::format("{} inside {}{}", be(over, many), activity->call, at);
    return {what, " since " + time, activity->time};
  }
  if (activity->queries > 0) {
    what += fmt::format("{} {}{}", over ? "polled" : many ? "poll" : "polls", activity->call, at);
    return {what, fmt::format(": {} times, the last at {}", count_text(activity->queries), time),
            0};
  }
  return {fmt::format("{}last call {}{}", what, activity->call, at), ", at " + time,
          activity->time};
}

// What they all did last; of some few that did different things each of them.
std::string doing_of_all(const Run& run, const Ranks& ranks,
                         const std::map<Rank, std::string>& elsewhere) {
  constexpr size_t kMostCompared = 64;
  constexpr size_t kMostTold = 3;
  if (ranks.size() > kMostCompared) {
    return "";
  }
  const auto doing = [&](Rank rank, bool many) {
    const auto place = elsewhere.find(rank);
    return doing_of(run, rank, place == elsewhere.end() ? "" : place->second, many);
  };
  Doing first = doing(ranks.front(), ranks.size() > 1);
  bool is_same_time = true;
  bool is_same = true;
  for (const Rank rank : ranks) {
    Doing other = doing(rank, ranks.size() > 1);
    is_same = is_same && other.what == first.what;
    is_same_time = is_same_time && other.when == first.when;
    if (other.time < first.time) {
      first = std::move(other);
    }
  }
  if (is_same) {
    return is_same_time      ? first.what + first.when
           : first.time == 0 ? first.what
                             : first.what + first.when + " or later";
  }
  std::string each;
  for (size_t i = 0; i < std::min(ranks.size(), kMostTold); ++i) {
    const Doing own = doing(ranks[i], false);
    each += fmt::format("{}rank {}: {}{}", i == 0 ? "" : "; ", ranks[i].value, own.what, own.when);
  }
  return ranks.size() <= kMostTold ? each : each + "; ..";
}

// Where its last call was made from, if no evidence names a place of it.
std::vector<CodePlace> last_frames(const Run& run, Rank rank) {
  const RankState* const state = state_of(run, rank);
  const auto activity = state == nullptr ? std::nullopt : activity_of(run, *state);
  const auto place =
      activity ? user_place(trace_of(run, *state), rank, activity->stack) : std::nullopt;
  return place ? job_frames(run, *place) : std::vector<CodePlace>();
}

// Culprits at one place together: of many ranks all may be at the same.
std::vector<CardActor> culprits_of(const Run& run, const Finding& finding) {
  using Key = std::tuple<std::string, int, std::string, std::string>;
  std::map<Key, std::pair<const CodePlace*, CardActor>> by_place;
  for (const Rank rank : finding.culprits) {
    const auto place = std::find_if(finding.where.begin(), finding.where.end(),
                                    [&](const CodePlace& other) { return other.rank == rank; });
    const bool known = place != finding.where.end();
    auto& [first, actor] = by_place[known ? Key{place->file, place->line, place->function,
                                                role_of(run, finding, *place).words}
                                          : Key{}];
    first = actor.ranks.empty() && known ? &*place : first;
    actor.ranks.push_back(rank);
    actor.culprit = true;
  }
  std::vector<CardActor> actors;
  for (auto& [key, at] : by_place) {
    auto& [place, actor] = at;
    tell_what_they_did(run, finding, place, actor);
    if (actor.frames.empty() && actor.ranks.size() == 1) {
      actor.frames = last_frames(run, actor.ranks.front());
    }
    tell_wait_in_cycle(run, finding, actor);
    actors.push_back(std::move(actor));
  }
  std::sort(actors.begin(), actors.end(),
            [](const CardActor& a, const CardActor& b) { return a.ranks < b.ranks; });
  return actors;
}

// Where nobody is blamed: those that do not wait, and may be what is waited for.
Ranks bystanders_of(const Finding& finding) {
  Ranks ranks;
  for (const Ranks& side : finding.sides) {
    for (const Rank rank : side) {
      if (!contains(finding.victims, rank)) {
        insert(ranks, rank);
      }
    }
  }
  return finding.culprits.empty() && !finding.victims.empty() ? ranks : Ranks();
}

std::vector<CardActor> others_of(const Run& run, const Finding& finding) {
  Ranks ranks = bystanders_of(finding);
  if (ranks.empty()) {
    return {};
  }
  CardActor actor;
  actor.ranks = std::move(ranks);
  tell_what_they_did(run, finding, nullptr, actor);
  actor.frames = last_frames(run, actor.ranks.front());
  return {std::move(actor)};
}

// Lines that the actors have said: who waits in what, what the culprits did last.
std::set<std::string> told_already(const Run& run, const Finding& finding) {
  std::set<std::string> told;
  const auto add = [&](const std::vector<std::string>& lines) {
    told.insert(lines.begin(), lines.end());
  };
  std::vector<std::string> of_culprits = last_call_lines(run, finding.culprits);
  of_culprits.resize(std::min(of_culprits.size(), kMostActors));
  add(of_culprits);
  add(last_call_lines(run, bystanders_of(finding)));
  std::vector<const Wait*> waits;
  Ranks elsewhere = finding.victims;  // of which no wait is known
  for (const Wait& wait : run.waits.waits) {
    const auto is_victim = [&](const Waiter& waiter) {
      return contains(finding.victims, waiter.rank);
    };
    if (std::any_of(wait.waiters.begin(), wait.waiters.end(), is_victim)) {
      waits.push_back(&wait);
      told.insert(wait_text(run, wait));
      told.insert(arguments_text(wait.operation, wait.details));
      std::erase_if(elsewhere, [&](Rank rank) {
        return std::any_of(wait.waiters.begin(), wait.waiters.end(),
                           [&](const Waiter& waiter) { return waiter.rank == rank; });
      });
    }
  }
  add(wait_lines(run, waits));
  std::vector<std::string> last_calls = last_call_lines(run, elsewhere);
  if (last_calls.size() == 1) {  // else the card has no room for all of them
    add(last_calls);
  }
  return told;
}

std::string traces_text(const CardOptions& options) {
  constexpr size_t kMostNamed = 3;
  std::string text;
  for (size_t i = 0; i < std::min(options.traces.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : " ") + shell_word(options.traces[i]);
  }
  return options.traces.empty() ? "traintrace" : options.traces.size() > kMostNamed ? ".." : text;
}

// Traces that a process may still be writing: a text was made of some.
bool may_be_attached(const CardOptions& options) {
  return std::all_of(options.traces.begin(), options.traces.end(), [](const std::string& path) {
    std::error_code none;
    return std::filesystem::is_directory(path, none) || path.ends_with(".trace");
  });
}

// Its threads are in it already.
bool was_sampled(const Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(),
                     [](const ProcessTrace& trace) { return !trace.now.empty(); });
}

// A run with errors is told before a newer one without; null: this is no such run.
const OtherRun* newer_without_error(const Run& run, const Finding& finding) {
  const auto newer =
      std::find_if(run.others.rbegin(), run.others.rend(), [&](const OtherRun& other) {
        return other.start > run.start && other.errors == 0 && !other.verdict.empty() &&
               other.restarted_as.empty();
      });
  return finding.severity == Severity::kError && newer != run.others.rend() ? &*newer : nullptr;
}

// What to know before anything else is read.
std::vector<std::string> notes_about(const Run& run, const Finding& finding,
                                     const std::vector<Finding>& all) {
  std::vector<std::string> notes;
  if (const OtherRun* const newer = newer_without_error(run, finding)) {
    notes.push_back(fmt::format("This is an older run. A newer one has no error: --run={}",
                                shell_word(newer->id)));
  }
  if (run.missing.size() > run.ranks.size() && !finding.victims.empty()) {
    notes.push_back(fmt::format(
        "Only {} of {} ranks {} given: what the others did is not known. Give their files too.",
        run.ranks.size(), run.world_size, run.ranks.size() == 1 ? "is" : "are"));
  }
  for (const Finding& other : all) {
    if (&other != &finding && other.severity == Severity::kError &&
        finding.severity == Severity::kError) {
      notes.push_back(fmt::format(
          "{}: {}",
          other.root ? "Another problem" : fmt::format("Consequence, {}", word_of(other.certainty)),
          for_people(other.title)));
    }
  }
  constexpr size_t kMostNotes = 3;
  notes.resize(std::min(notes.size(), kMostNotes));
  return notes;
}

std::vector<CardCommand> next_commands(const Run& run, const Finding& finding,
                                       const CardOptions& options) {
  const std::string traces = traces_text(options);
  std::vector<CardCommand> next;
  if (run.live && !finding.victims.empty() && !was_sampled(run) && may_be_attached(options)) {
    next.push_back({"traintrace attach " + traces, "what every thread does right now"});
  }
  if (std::string_view(kind_of(finding)) == "OUT OF MEMORY") {
    next.push_back({"traintrace export torch-snapshot " + traces + " --output=snap.pickle",
                    "for pytorch.org/memory_viz"});
  }
  if (finding.code.starts_with("latency.")) {
    next.push_back({"traintrace report --by=rank " + traces, "where each GPU's time went"});
  }
  if (finding.severity != Severity::kInfo) {
    next.push_back({"traintrace analyze --format=html -o report.html " + traces,
                    "the same as a page with pictures"});
  }
  if (!finding.code.empty()) {
    next.push_back({"traintrace findings " + std::string(finding.code), "what this means"});
  }
  return next;
}

}  // namespace

void tell_what_they_did(const Run& run, const Finding& finding, const CodePlace* place,
                        CardActor& actor) {
  constexpr size_t kMostAsked = 64;
  std::map<Rank, std::string> elsewhere;
  for (size_t i = 0; place != nullptr && i < std::min(actor.ranks.size(), kMostAsked); ++i) {
    CodePlace own = *place;
    own.rank = actor.ranks[i];
    const PlaceRole role = role_of(run, finding, own);
    if (role.last_call) {
      elsewhere[own.rank] = place_text(*role.last_call);
    }
    if (own.rank == place->rank) {
      actor.frames_are = role.words;
    }
  }
  if (place != nullptr) {
    actor.frames = job_frames(run, *place);
  }
  actor.who = who_is(run, actor.ranks);
  actor.doing = doing_of_all(run, actor.ranks, elsewhere);
  const bool nothing_known =
      actor.doing == actor.who || (place != nullptr && actor.doing == kNoCall);
  actor.doing = nothing_known ? "" : actor.doing;
}

std::string who_is(const Run& run, const Ranks& ranks) {
  std::set<std::string> hosts;
  for (const Rank rank : ranks) {
    if (const RankState* const state = state_of(run, rank)) {
      hosts.insert(trace_of(run, *state).host);
    }
  }
  hosts.erase("");
  if (ranks.size() > 1) {
    return hosts.size() == 1 ? "host " + *hosts.begin()
           : hosts.empty()   ? ""
                             : fmt::format("{} hosts", hosts.size());
  }
  const RankState* const state = ranks.empty() ? nullptr : state_of(run, ranks.front());
  if (state == nullptr) {
    return ranks.empty() ? "left no trace" : no_trace_text(run, ranks);
  }
  const ProcessTrace& trace = trace_of(run, *state);
  std::string who = trace.host.empty() ? "" : "host " + trace.host;
  if (trace.pid > 0) {
    who += fmt::format("{}pid {}", who.empty() ? "" : ", ", trace.pid);
  }
  if (const int device = device_of(run, *state); device >= 0) {
    who += fmt::format("{}GPU {}", who.empty() ? "" : ", ", device);
  }
  return who;
}

// Of what is more than a note.
const char* kind_of_numbers(std::string_view code) {
  return code == "numeric.same-data" || code == "numeric.stuck-input"      ? "REPEATED DATA"
         : code == "numeric.zero-gradient" || code == "numeric.norm-spike" ? "ODD GRADIENTS"
         : code == "numeric.scale-collapsed"                               ? "STEPS SKIPPED"
         : code == "numeric.replica-drift" || code == "numeric.rank-apart" ? "NUMBERS DIFFER"
                                                                           : "WRONG NUMBERS";
}

constexpr std::string_view kSlow = "SLOW, not stuck";

const char* kind_of(const Finding& finding) {
  const std::string_view code = finding.code;
  // A culprit may wait alone.
  const bool waits =
      !finding.victims.empty() ||
      (finding.severity == Severity::kError &&
       std::any_of(finding.values.begin(), finding.values.end(),
                   [](const auto& value) { return std::string_view(value.first) == "waited_ns"; }));
  if (code.ends_with("-oom") || code == "run.oom-then-hang") {
    return "OUT OF MEMORY";
  }
  if (code == "memory.growth-leak" || code.starts_with("memory.leak")) {
    return "MEMORY LEAK";
  }
  if (code.starts_with("memory.")) {
    return "MEMORY";
  }
  if (code == "latency.unattributed") {
    return "SLOW, cause undetermined";
  }
  if (code.starts_with("latency.") || code == "collective.late-rank") {
    return kSlow.data();
  }
  if (code == "run.watchdog-abort") {
    return "WATCHDOG ABORT";
  }
  if (code.starts_with("run.")) {
    return code == "run.healthy" ? (says_what_is_lost(finding) ? "NOTE" : "HEALTHY")
           : code == "run.in-progress"
               ? (finding.certainty == Certainty::kPossible ? "UNDECIDED" : "IN PROGRESS")
           // Ended as a whole, from outside: nothing of it has failed.
           : code == "run.rank-failed" ? (finding.severity == Severity::kError ? "FAILED" : "ENDED")
                                       : "UNEXPLAINED";
  }
  if (code.starts_with("trace.")) {
    return "TRACES";
  }
  if (code.starts_with("numeric.") && finding.severity != Severity::kInfo) {
    return kind_of_numbers(code);
  }
  if (code.starts_with("internal.")) {
    return "INTERNAL ERROR";
  }
  const bool is_about_calls = code.starts_with("collective.") || code.starts_with("p2p.");
  return waits                                  ? "HANG"
         : finding.severity != Severity::kError ? "NOTE"
         : is_about_calls                       ? "MISMATCH"
                                                : "HANG";
}

const char* certainty_word(Certainty certainty) {
  constexpr const char* kWords[] = {"PROVEN", "LIKELY", "POSSIBLE"};
  return kWords[static_cast<size_t>(certainty)];
}

std::string rank_title(const Ranks& ranks) {
  std::string text = ranks_text(ranks);
  for (size_t at = text.find(','); at != std::string::npos; at = text.find(',', at + 2)) {
    text.insert(at + 1, " ");
  }
  text[0] = 'R';
  return text;
}

Card card_of(const Run& run, const Finding& finding, const CardOptions& options,
             const std::vector<Finding>& all) {
  Card card;
  card.notes = notes_about(run, finding, all);
  card.kind = kind_of(finding);
  if (card.kind == kSlow && std::any_of(all.begin(), all.end(), [&](const Finding& other) {
        return leaves_wait_open(run, other);
      })) {
    card.kind = "SLOW";
  }
  card.headline = for_people(finding.title);
  card.certainty = certainty_word(finding.certainty);
  if (!finding.code.starts_with("latency.")) {
    card.actors = culprits_of(run, finding);
  }
  std::set<std::string> told;
  if (!card.actors.empty() || !finding.code.starts_with("latency.")) {
    std::vector<CardActor> others = others_of(run, finding);
    std::move(others.begin(), others.end(), std::back_inserter(card.actors));
    card.actors.resize(std::min(card.actors.size(), kMostActors - 1));
    std::vector<CardActor> victims = card_victims(run, finding, kMostActors - card.actors.size());
    std::move(victims.begin(), victims.end(), std::back_inserter(card.actors));
    told = told_already(run, finding);
  }
  for (CardActor& actor : card.actors) {
    actor.doing = for_people(with_wall_clock(actor.doing, run.start));
    for (const CodePlace& frame : actor.frames) {  // as the evidence has a stack
      told.insert(fmt::format("    {} at {}:{}", frame.function, frame.file, frame.line));
    }
    if (!actor.frames.empty()) {
      actor.source = source_lines(actor.frames.front(), run.start, options.source_lines);
    }
  }
  // What the bars of the ranks show is not said again.
  const bool bars = run.profile != nullptr && finding.code.starts_with("latency.");
  const bool has_waits =
      std::any_of(card.actors.begin(), card.actors.end(), [](const CardActor& actor) {
        return !actor.culprit && actor.doing.find("blocked in ") != std::string::npos;
      });
  for (const std::string& line : finding.evidence) {
    // From the first that waits on, as the actors have it; not from when all did.
    if (has_waits && line.starts_with("consequence: ") &&
        line.find(" been blocked for ") != line.npos) {
      continue;
    }
    const bool is_bar = bars && line.starts_with("rank ") && line.find(" % of ") < 32;
    const bool is_of_victims = !card.actors.empty() && line.starts_with(kHeldUp);
    if (!told.contains(line) && !is_bar && !is_of_victims) {
      card.why.push_back(line);
    }
  }
  card.why = lines_for_people(run, card.why);
  card.next = next_commands(run, finding, options);
  card.advice = for_people(finding.advice);
  return card;
}

}  // namespace traintrace
