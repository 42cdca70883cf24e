#include "analyzer/detectors/support.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/process/launch_facts.h"

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

// Of a rank that is said to be no certain process.
bool is_rank_alone(const Witness& witness) {
  return witness.rank && witness.pid == 0 && witness.host.empty();
}

std::vector<const Witness*> of_process(std::span<const Testimony> testimonies,
                                       const ProcessTrace& trace) {
  std::vector<const Witness*> own;
  for (const Testimony& testimony : testimonies) {
    for (const Witness& witness : testimony.witnesses) {
      const bool is_same = witness.pid == trace.pid && witness.host == trace.host;
      if (witness.rank ? witness.rank == launched_rank(trace) && (is_same || is_rank_alone(witness))
                       : is_same) {
        own.push_back(&witness);
      }
    }
  }
  return own;
}

using Process = std::tuple<std::string, int, int>;  // host, PID, rank or -1
Process process_of(const Witness& witness) {
  return {witness.host, witness.pid, witness.rank.value_or(-1)};
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

}  // namespace

std::optional<Rank> rank_of(const Run& run, const Witness& witness) {
  if (witness.rank) {
    return Rank{*witness.rank};
  }
  for (const Communicator& communicator : run.communicators) {
    const Member* const member = member_at(communicator, witness.local_rank);
    if (witness.communicator != 0 && member != nullptr &&
        text_of(run, *member).nccl_hash == witness.communicator) {
      return member->rank;
    }
  }
  return witness.pid == 0 ? std::nullopt : rank_by_process(run, witness);
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
    }
  }
}

std::vector<ProcessTrace> processes_of(std::span<const Testimony> testimonies) {
  const int world = largest_size(testimonies);
  std::map<Process, int> ranks;  // -1: it may have any
  int largest_rank = -1;
  for (const Testimony& testimony : testimonies) {
    for (const Witness& witness : testimony.witnesses) {
      int& rank = ranks.try_emplace(process_of(witness), witness.rank.value_or(-1)).first->second;
      largest_rank = std::max(largest_rank, witness.rank.value_or(-1));
      rank = witness.size == world && witness.local_rank < world ? witness.local_rank : rank;
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

Finding supported_finding(const Run& run, std::span<const Testimony> testimonies) {
  Finding finding;
  finding.code = "run.in-progress";
  finding.certainty = Certainty::kPossible;
  struct Sayers {
    Ranks ranks;
    std::vector<std::string> processes;  // whose rank nobody says
  };
  std::map<std::pair<uint64_t, std::string>, Sayers> sayings;
  for (const RankState& state : run.ranks) {
    const ProcessTrace& trace = trace_of(run, state);
    for (const Witness* const witness : of_process(testimonies, trace)) {
      Sayers& sayers = sayings[{witness->communicator, witness->says}];
      if (const std::optional<int> said = launched_rank(trace)) {
        insert(sayers.ranks, Rank{*said});
      } else {
        sayers.processes.push_back(fmt::format("{} on {}", trace.pid, trace.host));
      }
    }
  }
  for (const auto& [about, sayers] : sayings) {
    const std::string who =
        sayers.processes.empty()
            ? ranks_text(sayers.ranks)
            : fmt::format("{}{}process{} {}", sayers.ranks.empty() ? "" : ranks_text(sayers.ranks),
                          sayers.ranks.empty() ? "" : " and ",
                          sayers.processes.size() == 1 ? "" : "es",
                          fmt::join(sayers.processes, ", "));
    if (finding.evidence.size() < 4 * kEvidenceLines) {
      finding.evidence.push_back(
          fmt::format("{}{}: {}", who,
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
  finding.advice = conclusions.empty()
                       ? "record the next run: traintrace run -- COMMAND"
                       : "look at what these did: the end of their own output, and while they are "
                         "there their stacks (traintrace attach PID); record the next run: "
                         "traintrace run -- COMMAND";
  return finding;
}

}  // namespace traintrace
