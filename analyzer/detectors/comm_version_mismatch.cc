// Members of one communicator that run different versions of NCCL.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang_finding.h"

namespace traintrace {
namespace {

using Versions = std::map<std::string, Ranks>;

Versions versions_in(const Run& run, const Communicator& communicator) {
  Versions versions;
  for (const Member& member : communicator.members) {
    const auto& facts = run.processes[member.process].facts;
    if (const auto fact = facts.find("nccl-version"); fact != facts.end()) {
      insert(versions[fact->second], member.rank);
    }
  }
  return versions;
}

// Those who differ from a majority; nobody where there is none.
Ranks outvoted(const Versions& versions) {
  size_t most = 0;
  size_t all = 0;
  for (const auto& [version, ranks] : versions) {
    most = std::max(most, ranks.size());
    all += ranks.size();
  }
  Ranks others;
  for (const auto& [version, ranks] : versions) {
    if (2 * most > all && ranks.size() < most) {
      std::for_each(ranks.begin(), ranks.end(), [&](Rank rank) { insert(others, rank); });
    }
  }
  return others;
}

Finding mismatch(const Communicator& communicator, const Versions& versions) {
  Finding finding;
  finding.code = "comm.version-mismatch";
  finding.severity = Severity::kWarning;
  finding.communicator = {communicator.id, communicator.name, communicator.size};
  finding.culprits = outvoted(versions);
  finding.title = fmt::format("ranks of communicator {} run {} versions of NCCL", communicator.name,
                              versions.size());
  for (const auto& [version, ranks] : versions) {
    finding.sides.push_back(ranks);
    finding.evidence.push_back(fmt::format("NCCL {}: {}", version, ranks_text(ranks)));
  }
  finding.values = {{"version_count", static_cast<int64_t>(versions.size())}};
  finding.advice =
      "start all ranks from one environment: a container, a LD_LIBRARY_PATH, a Python package";
  return finding;
}

}  // namespace

// Of several communicators with the same split, the first says it.
std::vector<Finding> find_version_mismatch(const Run& run) {
  std::vector<Finding> findings;
  std::vector<Versions> seen;
  for (const Communicator& communicator : run.communicators) {
    const Versions versions = versions_in(run, communicator);
    if (versions.size() > 1 && std::find(seen.begin(), seen.end(), versions) == seen.end()) {
      findings.push_back(mismatch(communicator, versions));
      seen.push_back(versions);
    }
  }
  return findings;
}

}  // namespace traintrace
