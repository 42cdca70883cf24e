// Two groups were split off with one color, and so became one communicator.
#include <fmt/format.h>

#include <map>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang_finding.h"

namespace traintrace {
namespace {

using Names = std::map<std::string, Ranks>;

Names names_in(const Run& run, const Communicator& communicator) {
  Names names;
  for (const Member& member : communicator.members) {
    const CommunicatorText& text = text_of(run, member);
    if (text.origin == format::kSplit && (text.flags & format::kNoColor) == 0) {
      insert(names[text.name], member.rank);
    }
  }
  return names;
}

Finding finding_about(const Run& run, const Communicator& communicator, const Names& names) {
  Finding finding;
  finding.code = "comm.split-color-collision";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.root = true;
  finding.communicator = {communicator.id, communicator.name, communicator.size};
  const CommunicatorText& first = text_of(run, communicator.members.front());
  finding.title = fmt::format(
      "{} groups were split off with color {} in one call: they are one "
      "communicator",
      names.size(), first.color);
  for (const auto& [name, ranks] : names) {
    finding.sides.push_back(ranks);
    finding.evidence.push_back(fmt::format("{}: called {}", ranks_text(ranks), name));
  }
  for (const Member& member : communicator.members) {
    const CommunicatorText& text = text_of(run, member);
    if (auto place = user_place(run.processes[member.process], member.rank, text.created_stack)) {
      finding.where.push_back(*place);
      break;
    }
  }
  finding.values = {{"color", first.color}};
  finding.advice =
      "give each group a color of its own: colors made from hashes of names may collide";
  return finding;
}

}  // namespace

std::vector<Finding> find_color_collisions(const Run& run) {
  std::vector<Finding> findings;
  for (const Communicator& communicator : run.communicators) {
    const Names names = names_in(run, communicator);
    // Names of one group are equal on all its ranks, or it has none.
    if (names.size() > 1 && !names.contains("")) {
      findings.push_back(finding_about(run, communicator, names));
    }
  }
  return findings;
}

}  // namespace traintrace
