// Ranks wait on the host, in gloo or in the store, for one that is blocked elsewhere: NCCL has no
// part in it, so that only a look from outside can tell.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/threads_now.h"
#include "analyzer/model/waiting/rendezvous.h"

namespace traintrace {
namespace {

const ThreadNow& looked_thread(const Run& run, Rank rank) {
  return *working_thread(run, *state_of(run, rank));
}

// "waits for a file at data.py:15 in open"
std::string doing_at(const Run& run, Rank rank) {
  const ThreadNow& thread = looked_thread(run, rank);
  const auto place = place_now(thread, rank);
  return doing_text(thread) + (place ? " at " + place_text(*place) : "");
}

// It may wait for another rank by ways that are not seen.
bool may_wait_elsewhere(const ThreadNow& thread) {
  return thread.waiting == Waiting::kSocket || thread.waiting == Waiting::kPipe;
}

void blame_elsewhere(const Run& run, const Rendezvous& group, Finding& finding) {
  const bool own_reason =
      std::none_of(group.elsewhere.begin(), group.elsewhere.end(),
                   [&](Rank rank) { return may_wait_elsewhere(looked_thread(run, rank)); });
  if (own_reason && group.elsewhere.size() < group.waiting.size()) {
    finding.certainty = Certainty::kLikely;
    finding.culprits = group.elsewhere;
  } else {
    finding.certainty = Certainty::kPossible;
    finding.title += "; culprit undetermined";
  }
}

void add_places_of(const Run& run, const Ranks& ranks, Finding& finding) {
  for (size_t i = 0; i < std::min(ranks.size(), kEvidenceLines); ++i) {
    if (const auto place = place_now(looked_thread(run, ranks[i]), ranks[i])) {
      finding.where.push_back(*place);
    }
  }
}

void add_lines_of(const Run& run, const Ranks& ranks, Finding& finding) {
  std::vector<std::string> lines;
  lines.reserve(ranks.size());
  for (const Rank rank : ranks) {
    lines.push_back(fmt::format("rank {} {}, at the same place in two samples", rank.value,
                                doing_at(run, rank)));
  }
  add_lines(lines, finding.evidence);
}

Finding group_finding(const Run& run, const Rendezvous& group) {
  Finding finding;
  finding.code = "host.stuck";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.root = true;
  finding.victims = group.waiting;
  finding.sides = {group.elsewhere, group.waiting};
  const Rank first = group.elsewhere.front();
  const auto place = place_now(looked_thread(run, group.waiting.front()), group.waiting.front());
  finding.title =
      fmt::format("{} {} stuck outside CUDA: {} {}; {} rank{} wait{} in {}{}",
                  ranks_text(group.elsewhere), group.elsewhere.size() == 1 ? "is" : "are",
                  group.elsewhere.size() == 1 ? "it" : ranks_text({first}), doing_at(run, first),
                  group.waiting.size(), group.waiting.size() == 1 ? "" : "s",
                  group.waiting.size() == 1 ? "s" : "",
                  host_group_of(looked_thread(run, group.waiting.front())),
                  place ? " at " + place_text(*place) : "");
  blame_elsewhere(run, group, finding);
  add_places_of(run, group.elsewhere, finding);
  add_places_of(run, {group.waiting.front()}, finding);
  add_lines_of(run, group.elsewhere, finding);
  add_lines_of(run, group.waiting, finding);
  finding.evidence.push_back(
      fmt::format("no rank has called CUDA or NCCL for {}", seconds(group.silent)));
  finding.values = {{"silent_ns", group.silent}};
  finding.advice = "look at what that line waits for: the others wait on the host until it comes";
  return finding;
}

std::optional<CodePlace> sampled_place(const Run& run, Rank rank) {
  const RankState& state = *state_of(run, rank);
  return user_place(trace_of(run, state), rank, state.sampled->stack);
}

std::string at_text(const std::optional<CodePlace>& place) {
  return place ? " at " + place_text(*place) : "";
}

Finding sampled_finding(const Run& run, const Rendezvous& group) {
  Finding finding;
  finding.code = "host.stuck";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.root = true;
  finding.victims = group.waiting;
  finding.sides = {group.elsewhere, group.waiting};
  const auto own = sampled_place(run, group.elsewhere.front());
  const auto others = sampled_place(run, group.waiting.front());
  const bool few = group.elsewhere.size() < group.waiting.size();
  finding.title = fmt::format(
      "{} did not come to where the others waited on the host: {} last seen{}; {} rank{} "
      "waited{}{}",
      ranks_text(group.elsewhere),
      group.elsewhere.size() == 1 ? "it was"
                                  : fmt::format("rank {} was", group.elsewhere.front().value),
      at_text(own), group.waiting.size(), group.waiting.size() == 1 ? "" : "s", at_text(others),
      few ? "" : "; culprit undetermined");
  finding.certainty = few ? Certainty::kLikely : Certainty::kPossible;
  finding.culprits = few ? group.elsewhere : Ranks();
  for (const auto& place : {own, others}) {
    if (place) {
      finding.where.push_back(*place);
    }
  }
  add_lines(sampled_lines(run, group.elsewhere), finding.evidence);
  add_lines(sampled_lines(run, group.waiting), finding.evidence);
  finding.evidence.push_back(
      fmt::format("no rank called CUDA or NCCL for {}", seconds(group.silent)));
  finding.values = {{"silent_ns", group.silent}};
  finding.advice = "look at what that line waits for: the others wait on the host until it comes";
  return finding;
}

}  // namespace

std::vector<Finding> find_missing_from_host_groups(const Run& run) {
  std::vector<Finding> findings;
  if (const auto group = stuck_host_group(run)) {
    findings.push_back(group_finding(run, *group));
  } else if (const auto seen = sampled_host_group(run)) {
    findings.push_back(sampled_finding(run, *seen));
  }
  return findings;
}

}  // namespace traintrace
