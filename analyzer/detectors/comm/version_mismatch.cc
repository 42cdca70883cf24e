// Members of one communicator that run different versions of NCCL, or tell it differently what it
// cannot do differently.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/sides_finding.h"
#include "analyzer/model/divergence/majority.h"

namespace traintrace {
namespace {

constexpr std::string_view kVersion = "nccl-version";
constexpr size_t kMostSidesInTitle = 3;

// From these each rank works out by itself which algorithm and protocol an operation takes and in
// what pieces it goes (NCCL's graph/tuning.cc, init.cc); ranks do not tell each other.  What they
// agree on when they meet, as channels, and what is their own affair, as interfaces, is not here.
constexpr std::string_view kFacts[] = {
    kVersion,
    "env.NCCL_ALGO",
    "env.NCCL_PROTO",
    "env.NCCL_BUFFSIZE",
    "env.NCCL_LL_BUFFSIZE",
    "env.NCCL_LL128_BUFFSIZE",
    "env.NCCL_NTHREADS",
    "env.NCCL_LL128_NTHREADS",
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// "NCCL 2.28.9", "NCCL_ALGO=ring", "NCCL_ALGO not set"; empty: not known.
std::string said(const ProcessTrace& trace, std::string_view fact) {
  const auto found = trace.facts.find(std::string(fact));
  if (fact == kVersion) {
    return found == trace.facts.end() ? "" : "NCCL " + found->second;
  }
  const std::string name(fact.substr(fact.find('.') + 1));
  if (found != trace.facts.end()) {
    return name + "=" + lower(found->second);
  }
  // Traces of other tools do not have the environment.
  return trace.facts.contains("traintrace-version") ? name + " not set" : "";
}

Sides sides_in(const Run& run, const Communicator& communicator, std::string_view fact) {
  Sides sides;
  for (const Member& member : communicator.members) {
    if (const std::string text = said(run.processes[member.process], fact); !text.empty()) {
      insert(sides[text], member.rank);
    }
  }
  return sides;
}

// By all that differs.
Sides together(const std::vector<Sides>& differences) {
  std::map<Rank, std::string> texts;
  for (const Sides& sides : differences) {
    for (const auto& [text, ranks] : sides) {
      for (const Rank rank : ranks) {
        texts[rank] += (texts[rank].empty() ? "" : ", ") + text;
      }
    }
  }
  Sides all;
  for (const auto& [rank, text] : texts) {
    insert(all[text], rank);
  }
  return all;
}

Finding mismatch(const Communicator& communicator, const std::vector<Sides>& differences) {
  const Sides all = together(differences);
  Finding finding = sides_finding(communicator, all, "comm.version-mismatch");
  for (const Sides& sides : differences) {
    for (const Rank rank : outvoted(sides)) {
      insert(finding.culprits, rank);
    }
  }
  const bool versions = differences.front().begin()->first.starts_with("NCCL ");
  finding.title =
      fmt::format("ranks of communicator {} {} NCCL", communicator.name,
                  versions ? "run different versions of" : "give different settings to");
  size_t told = 0;
  for (const auto& [text, ranks] : all) {
    if (++told <= kMostSidesInTitle) {
      finding.title += fmt::format("{}{} on {}", told == 1 ? ": " : "; ", text, ranks_text(ranks));
    }
    finding.evidence.push_back(fmt::format("{}: {}", ranks_text(ranks), text));
  }
  finding.title += told > kMostSidesInTitle ? "; .." : "";
  finding.evidence.push_back(
      "each rank works out algorithm, protocol and chunk sizes by itself: where these differ, a "
      "collective hangs or fails");
  finding.values = {{"version_count", static_cast<int64_t>(all.size())}};
  finding.advice =
      "start all ranks from one environment: the same container, LD_LIBRARY_PATH, Python packages "
      "and NCCL_* variables";
  return finding;
}

}  // namespace

// Of several communicators with the same differences, the first says it.
std::vector<Finding> find_version_mismatch(const Run& run) {
  std::vector<Finding> findings;
  std::vector<std::vector<Sides>> seen;
  for (const Communicator& communicator : run.communicators) {
    std::vector<Sides> differences;
    for (const std::string_view fact : kFacts) {
      if (Sides sides = sides_in(run, communicator, fact); sides.size() > 1) {
        differences.push_back(std::move(sides));
      }
    }
    if (!differences.empty() && std::find(seen.begin(), seen.end(), differences) == seen.end()) {
      findings.push_back(mismatch(communicator, differences));
      seen.push_back(std::move(differences));
    }
  }
  return findings;
}

}  // namespace traintrace
