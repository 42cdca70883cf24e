// Two groups were split off with one color, and so became one communicator.
#include <fmt/format.h>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/sides_finding.h"
#include "analyzer/model/divergence/splits.h"

namespace traintrace {
namespace {

Sides names_in(const Run& run, const Communicator& communicator) {
  Sides names;
  for (const Member& member : communicator.members) {
    const CommunicatorText& text = text_of(run, member);
    if (text.origin == format::kSplit && (text.flags & format::kNoColor) == 0) {
      insert(names[text.name], member.rank);
    }
  }
  return names;
}

Finding finding_about(const Run& run, const Communicator& communicator, const Sides& names) {
  Finding finding = sides_finding(communicator, names, "comm.split-color-collision");
  finding.root = true;
  const CommunicatorText& first = text_of(run, communicator.members.front());
  finding.title = fmt::format(
      "{} groups were split off with color {} in one call: they are one "
      "communicator",
      names.size(), first.color);
  for (const auto& [name, ranks] : names) {
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
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const Sides names = names_in(run, run.communicators[i]);
    // Names of one group are equal on all its ranks, or it has none.
    if (names.size() > 1 && !names.contains("") && !is_of_split_mismatch(run, i)) {
      findings.push_back(finding_about(run, run.communicators[i], names));
    }
  }
  return findings;
}

}  // namespace traintrace
