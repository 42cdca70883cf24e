#include "analyzer/detectors/support.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/process/launch_facts.h"
#include "analyzer/text/wall_clock.h"

namespace traintrace {
namespace {

bool is_host_of(const Run& run, const std::string& host) {
  return std::find(run.hosts.begin(), run.hosts.end(), host) != run.hosts.end();
}

// The rank of a process; RAS says addresses where a trace has names, and NCCL's log has no host in
// some containers, so that then the PID must do.
std::optional<Rank> rank_by_process(const Run& run, const Witness& witness) {
  std::optional<Rank> found;
  for (const RankState& state : run.ranks) {
    const ProcessTrace& trace = trace_of(run, state);
    const bool same =
        trace.pid == witness.pid && (trace.host == witness.host || !is_host_of(run, witness.host));
    if (same && found) {
      return std::nullopt;
    }
    found = same ? std::optional(state.rank) : found;
  }
  return found;
}

// Of a pod, which is a host of its own.
std::optional<Rank> rank_alone_on(const Run& run, const std::string& host) {
  std::optional<Rank> found;
  for (const RankState& state : run.ranks) {
    if (!host.empty() && trace_of(run, state).host == host) {
      if (found) {
        return std::nullopt;
      }
      found = state.rank;
    }
  }
  return found;
}

// A task of Slurm may be a launcher of several ranks; then it says nothing of any of them.
std::optional<Rank> rank_by_task(const Run& run, int task) {
  std::optional<Rank> found;
  for (const RankState& state : run.ranks) {
    if (environment_number(trace_of(run, state), "SLURM_PROCID") == task) {
      if (found) {
        return std::nullopt;
      }
      found = state.rank;
    }
  }
  return found;
}

const CommunicatorText* communicator_of(const Run& run, const Finding& finding) {
  for (const Communicator& communicator : run.communicators) {
    if (finding.communicator && communicator.id == finding.communicator->id &&
        !communicator.members.empty()) {
      return &text_of(run, communicator.members.front());
    }
  }
  return nullptr;
}

bool is_about(const Finding& finding, Rank rank) {
  return contains(finding.culprits, rank) || contains(finding.victims, rank) ||
         std::any_of(finding.sides.begin(), finding.sides.end(),
                     [&](const Ranks& side) { return contains(side, rank); });
}

// What is said of another communicator than the finding's is left out, where that can be told.
bool is_about(const CommunicatorText* text, const Run& run, const Witness& witness, Rank rank) {
  if (text == nullptr || (witness.communicator == 0 && witness.handle == 0)) {
    return true;
  }
  if (witness.communicator != 0) {
    return witness.communicator == text->nccl_hash;
  }
  const RankState* const state = state_of(run, rank);
  return state != nullptr &&
         std::any_of(trace_of(run, *state).communicators.begin(),
                     trace_of(run, *state).communicators.end(), [&](const CommunicatorText& own) {
                       return own.id == text->id && own.handle == witness.handle;
                     });
}

using Sayings = std::map<std::string, Ranks>;

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

void add_lines(const Testimony& testimony, const Sayings& sayings, const Ranks& first,
               Finding& finding) {
  std::vector<std::string> lines;
  for (const bool of_first : {true, false}) {
    for (const auto& [says, ranks] : sayings) {
      const bool is_first =
          std::any_of(ranks.begin(), ranks.end(), [&](Rank rank) { return contains(first, rank); });
      if (is_first == of_first) {
        lines.push_back(fmt::format("{} ({}) of {}: {}", testimony.source,
                                    file_name(testimony.file), ranks_text(ranks), says));
      }
    }
  }
  const size_t kept = std::min(lines.size(), kEvidenceLines);
  finding.evidence.insert(finding.evidence.end(), lines.begin(),
                          lines.begin() + static_cast<std::ptrdiff_t>(kept));
}

// Host, PID, rank or -1, and what a process is called whose rank nobody says.
using Process = std::tuple<std::string, int, int, std::string>;
Process process_of(const Witness& witness) {
  return {witness.host, witness.pid, witness.rank.value_or(-1),
          witness.rank ? std::string() : witness.who};
}

// Of the communicators that are spoken of: the job's, else there is no telling.
int largest_size(std::span<const Testimony> testimonies) {
  int largest = 0;
  for (const Testimony& testimony : testimonies) {
    for (const Witness& witness : testimony.witnesses) {
      largest = std::max(largest, witness.size);
    }
  }
  return largest;
}

// -1: it may have any.
std::map<Process, int> ranks_of_processes(std::span<const Testimony> testimonies) {
  const int world = largest_size(testimonies);
  std::map<Process, int> ranks;
  for (const Testimony& testimony : testimonies) {
    for (const Witness& witness : testimony.witnesses) {
      int& rank = ranks.try_emplace(process_of(witness), witness.rank.value_or(-1)).first->second;
      rank = witness.size == world && witness.local_rank < world ? witness.local_rank : rank;
    }
  }
  return ranks;
}

// Who all says the same.
struct Sayers {
  Ranks ranks;
  std::set<std::string> names;
  std::set<std::string> processes;  // that have no name: "17 on node1"
  std::string text() const {
    std::vector<std::string> all(names.begin(), names.end());
    if (!ranks.empty()) {
      all.insert(all.begin(), ranks_text(ranks));
    }
    if (!processes.empty()) {
      all.push_back(fmt::format("process{} {}", processes.size() == 1 ? "" : "es",
                                fmt::join(processes, ", ")));
    }
    return fmt::format("{}", fmt::join(all, " and "));
  }
};

std::string ended_advice(const std::vector<std::string>& of_testimonies) {
  return (of_testimonies.empty() ? std::string("look at the end of their own output")
                                 : fmt::format("{}", fmt::join(of_testimonies, "; "))) +
         "; record the next run: traintrace run -- COMMAND";
}

// Findings about processes that have ended, and by whose own traces it is not known why.
bool is_about_an_end(const Finding& finding) {
  return finding.code == "collective.dead-rank" || finding.code == "collective.early-exit" ||
         finding.code == "run.rank-failed";
}

// A log may be of weeks, and PIDs come again.
bool may_be_its_end(const Run& run, Rank rank, const Witness& witness) {
  constexpr int64_t kClocksMayDiffer = 600'000'000'000;
  const RankState* const state = state_of(run, rank);
  const TimeNs last = state == nullptr ? 0 : last_sign_of_life(trace_of(run, *state));
  return !witness.ended || !is_wall_clock(last) ||
         std::abs(*witness.ended - static_cast<int64_t>(last)) < kClocksMayDiffer;
}

bool ended_by_exception(const Run& run, Rank rank) {
  const RankState* const state = state_of(run, rank);
  return state != nullptr && state->ending == Ending::kExited &&
         trace_of(run, *state).exit_kind == format::kExit && trace_of(run, *state).exit_status == 1;
}

// The line that raised it stands first: the rank's last call may be far from it.
void explain_exception(const Run& run, const Testimony& testimony, Finding& finding) {
  for (const Witness& witness : testimony.witnesses) {
    const std::optional<Rank> rank = rank_of(run, witness);
    if (!witness.raised || witness.raised->file.empty() || !rank ||
        !contains(finding.culprits, *rank) || !ended_by_exception(run, *rank)) {
      continue;
    }
    const RaisedException& raised = *witness.raised;
    const CodePlace place{*rank, raised.file, raised.line, raised.function, "python"};
    finding.title += fmt::format("; rank {} raised {} at {}, says {}", rank->value, raised.text,
                                 place_text(place), testimony.source);
    std::erase(finding.where, place);
    finding.where.insert(finding.where.begin(), place);
    return;
  }
}

// What ended a culprit: then nobody has to find that out.
void explain_end(const Run& run, const Testimony& testimony, Finding& finding) {
  bool is_told = false;
  const Witness* unknown = nullptr;  // whose rank is not known
  for (const Witness& witness : testimony.witnesses) {
    if (witness.outer_cause.empty() || is_told) {
      continue;
    }
    const std::optional<Rank> rank = rank_of(run, witness);
    unknown = rank || unknown != nullptr ? unknown : &witness;
    if (rank && contains(finding.culprits, *rank) && may_be_its_end(run, *rank, witness)) {
      is_told = true;
      finding.title += fmt::format("; {} was {}, says {}", ranks_text({*rank}), witness.outer_cause,
                                   testimony.source);
    }
  }
  if (!is_told && unknown != nullptr) {
    finding.evidence.push_back(fmt::format("{} ({}): {} was {}; which rank that is, is not known",
                                           testimony.source, file_name(testimony.file),
                                           unknown->who, unknown->outer_cause));
  }
  if (is_told && !testimony.advice.empty()) {
    finding.advice = fmt::format("{}", fmt::join(testimony.advice, "; "));
  }
}

}  // namespace

std::optional<Rank> rank_of(const Run& run, const Witness& witness) {
  if (witness.rank) {
    return Rank{*witness.rank};
  }
  if (witness.task) {
    return rank_by_task(run, *witness.task);
  }
  for (const Communicator& communicator : run.communicators) {
    const Member* const member = member_at(communicator, witness.local_rank);
    if (witness.communicator != 0 && member != nullptr &&
        text_of(run, *member).nccl_hash == witness.communicator) {
      return member->rank;
    }
  }
  return witness.pid == 0 ? rank_alone_on(run, witness.host) : rank_by_process(run, witness);
}

void add_support(const Run& run, std::span<const Testimony> testimonies,
                 std::vector<Finding>& findings) {
  for (const Testimony& testimony : testimonies) {
    std::vector<std::optional<Rank>> ranks;
    for (const Witness& witness : testimony.witnesses) {
      ranks.push_back(rank_of(run, witness));
    }
    for (Finding& finding : findings) {
      const CommunicatorText* const text = communicator_of(run, finding);
      Sayings sayings;
      for (size_t i = 0; i < ranks.size(); ++i) {
        const Witness& witness = testimony.witnesses[i];
        if (ranks[i] && is_about(finding, *ranks[i]) && is_about(text, run, witness, *ranks[i])) {
          insert(sayings[witness.says], *ranks[i]);
        }
      }
      add_lines(testimony, sayings, finding.culprits, finding);
      if (is_about_an_end(finding)) {
        explain_end(run, testimony, finding);
        explain_exception(run, testimony, finding);
      }
    }
  }
}

std::vector<ProcessTrace> processes_of(std::span<const Testimony> testimonies) {
  const int world = largest_size(testimonies);
  const std::map<Process, int> ranks = ranks_of_processes(testimonies);
  int largest_rank = -1;
  for (const Testimony& testimony : testimonies) {
    for (const Witness& witness : testimony.witnesses) {
      largest_rank = std::max(largest_rank, witness.rank.value_or(-1));
    }
  }
  std::set<int> of_processes;
  for (const auto& [process, rank] : ranks) {
    if (std::get<1>(process) != 0 && rank >= 0) {
      of_processes.insert(rank);
    }
  }
  std::vector<ProcessTrace> processes;
  for (const auto& [process, rank] : ranks) {
    if (std::get<1>(process) == 0 && of_processes.contains(rank)) {
      continue;  // the same rank, as another file or line says it
    }
    if (rank < 0 && !std::get<3>(process).empty()) {
      continue;  // no rank: a launcher, a worker, several ranks
    }
    ProcessTrace& trace = processes.emplace_back();
    trace.host = std::get<0>(process);
    trace.pid = std::get<1>(process);
    trace.source = fmt::format("{}.{}.{}", trace.host, trace.pid, std::get<2>(process));
    trace.parent_pid = -1;
    trace.start_time = processes.size();
    trace.facts["source"] = "hearsay";
    if (rank >= 0) {
      trace.facts["env.RANK"] = std::to_string(rank);
      trace.facts["env.WORLD_SIZE"] = std::to_string(std::max(world, largest_rank + 1));
    }
  }
  return processes;
}

Finding supported_finding(std::span<const Testimony> testimonies) {
  Finding finding;
  finding.code = "run.in-progress";
  finding.certainty = Certainty::kPossible;
  const std::map<Process, int> ranks = ranks_of_processes(testimonies);
  std::map<std::pair<uint64_t, std::string>, Sayers> sayings;
  for (const Testimony& testimony : testimonies) {
    for (const Witness& witness : testimony.witnesses) {
      Sayers& sayers = sayings[{witness.communicator, witness.says}];
      if (const int rank = ranks.at(process_of(witness)); rank >= 0) {
        insert(sayers.ranks, Rank{rank});
      } else {
        witness.who.empty()
            ? sayers.processes.insert(fmt::format("{} on {}", witness.pid, witness.host))
            : sayers.names.insert(witness.who);
      }
    }
  }
  for (const auto& [about, sayers] : sayings) {
    if (finding.evidence.size() < 4 * kEvidenceLines) {
      finding.evidence.push_back(
          fmt::format("{}{}: {}", sayers.text(),
                      about.first == 0 ? "" : fmt::format(" on communicator {:#x}", about.first),
                      about.second));
    }
  }
  std::vector<std::string> conclusions;
  for (const Testimony& testimony : testimonies) {
    conclusions.insert(conclusions.end(), testimony.conclusions.begin(),
                       testimony.conclusions.end());
  }
  const auto silence = [](const Testimony& testimony) {
    return std::pair(testimony.conclusions.empty(), testimony.witnesses.empty());
  };
  const std::string& source = std::min_element(testimonies.begin(), testimonies.end(),
                                               [&](const Testimony& a, const Testimony& b) {
                                                 return silence(a) < silence(b);
                                               })
                                  ->source;
  finding.title =
      conclusions.empty()
          ? fmt::format(
                "there is no trace of this job, only what {} says: launched is not finished, and "
                "who waits for whom cannot be said",
                source)
          : fmt::format("{}, says {}; there is no trace of this job that says more",
                        conclusions.front(), source);
  finding.evidence.insert(finding.evidence.begin(),
                          conclusions.begin() + (conclusions.empty() ? 0 : 1), conclusions.end());
  std::vector<std::string> advice;
  for (const Testimony& testimony : testimonies) {
    advice.insert(advice.end(), testimony.advice.begin(), testimony.advice.end());
  }
  const bool all_ended =
      std::all_of(testimonies.begin(), testimonies.end(), [](const Testimony& testimony) {
        return testimony.is_of != Testimony::Of::kMoments || testimony.conclusions.empty();
      });
  if (all_ended && !conclusions.empty()) {
    const bool any_failed =
        std::any_of(testimonies.begin(), testimonies.end(), [](const Testimony& testimony) {
          return testimony.is_of == Testimony::Of::kFailures && !testimony.conclusions.empty();
        });
    finding.code = "run.rank-failed";
    finding.severity = any_failed ? Severity::kError : Severity::kWarning;
  }
  finding.advice = all_ended && !conclusions.empty() ? ended_advice(advice)
                   : conclusions.empty()
                       ? "record the next run: traintrace run -- COMMAND"
                       : "look at what these did: the end of their own output, and while they are "
                         "there their stacks (traintrace attach PID); record the next run: "
                         "traintrace run -- COMMAND";
  return finding;
}

}  // namespace traintrace
