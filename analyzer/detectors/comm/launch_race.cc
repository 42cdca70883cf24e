// NCCL refused a call while another thread was launching on the same device.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/waiting/launch_races.h"

namespace traintrace {
namespace {

const Communicator* communicator_of(const Run& run, const LaunchRace& race) {
  for (const Communicator& communicator : run.communicators) {
    const Member* member = member_of(communicator, race.rank);
    if (member != nullptr && member->process == race.process && member->element == race.element) {
      return &communicator;
    }
  }
  return nullptr;
}

void add_victims(const Run& run, const LaunchRace& race, Finding& finding) {
  TimeNs waited = 0;
  for (const Hang& hang : run.waits.hangs) {
    if (contains(hang.roots, race.rank)) {
      std::for_each(hang.victims.begin(), hang.victims.end(),
                    [&](Rank rank) { insert(finding.victims, rank); });
      waited = std::max(waited, hang.waited);
    }
  }
  if (!finding.victims.empty()) {
    finding.values = {{"waited_ns", waited}};
  }
}

void add_places(const LaunchRace& race, const ProcessTrace& trace, Finding& finding) {
  for (const CallRecord* event : {race.refused, race.other}) {
    if (const auto place = user_place(trace, race.rank, event->stack)) {
      finding.where.push_back(*place);
    }
  }
}

Finding finding_about(const Run& run, const LaunchRace& race) {
  const ProcessTrace& trace = run.processes[race.process];
  const std::string refused = call_name(trace, race.refused->call);
  Finding finding;
  finding.code = "comm.launch-race";
  finding.severity = catalogue_row(finding.code)->severity;
  // NCCL says no more than that the use was invalid.
  finding.certainty = Certainty::kLikely;
  finding.root = true;
  finding.culprits = {race.rank};
  finding.sides = {{race.rank}};
  finding.operation = refused;
  if (const Communicator* communicator = communicator_of(run, race)) {
    finding.communicator = {communicator->id, communicator->name, communicator->size};
  }
  finding.title = fmt::format(
      "NCCL refused {} of rank {} as invalid use while another of its threads was inside {} on the "
      "same device",
      refused, race.rank.value, call_name(trace, race.other->call));
  finding.evidence = {fmt::format("thread {} was refused at {}, thread {} had been inside since {}",
                                  race.refused->thread, run_time(run, race.refused->leave),
                                  race.other->thread, run_time(run, race.other->enter))};
  add_places(race, trace, finding);
  add_victims(run, race, finding);
  finding.advice =
      "let one thread at a time launch on a device: which of two comes first is up to chance, and "
      "may differ between ranks. NCCL_LAUNCH_RACE_FATAL=0 hides it";
  return finding;
}

}  // namespace

std::vector<Finding> find_launch_races(const Run& run) {
  std::vector<Finding> findings;
  for (const LaunchRace& race : launch_races(run)) {
    findings.push_back(finding_about(run, race));
  }
  return findings;
}

}  // namespace traintrace
