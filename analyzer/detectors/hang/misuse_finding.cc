#include "analyzer/detectors/hang/misuse_finding.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

const Communicator* communicator_of(const Run& run, const Misuse& misuse) {
  for (const Communicator& communicator : run.communicators) {
    const Member* member = member_of(communicator, misuse.rank);
    if (member != nullptr && member->process == misuse.process &&
        member->element == misuse.element) {
      return &communicator;
    }
  }
  return nullptr;
}

void add_victims(const Run& run, const Misuse& misuse, Finding& finding) {
  TimeNs waited = 0;
  for (const Hang& hang : run.waits.hangs) {
    if (contains(hang.roots, misuse.rank)) {
      for (const Rank rank : hang.victims) {
        insert(finding.victims, rank);
      }
      waited = std::max(waited, hang.waited);
    }
  }
  if (!finding.victims.empty()) {
    finding.values = {{"waited_ns", waited}};
  }
}

std::string title_of(const Misuse& misuse, const CommunicatorText& text, const std::string& call,
                     const std::string& label) {
  if (misuse.kind == MisuseKind::kTooEarly) {
    return fmt::format(
        "rank {} called {} on communicator {} before what was under way there was done",
        misuse.rank.value, call, label);
  }
  return fmt::format("rank {} called {} on communicator {} after it had {} it", misuse.rank.value,
                     call, label, (text.flags & format::kAborted) != 0 ? "aborted" : "destroyed");
}

Finding finding_about(const Run& run, const Misuse& misuse, std::string_view code) {
  const ProcessTrace& trace = run.processes[misuse.process];
  const CommunicatorText& text = trace.communicators[misuse.element];
  const Communicator* communicator = communicator_of(run, misuse);
  const std::string label = communicator == nullptr ? text.name : label_of(run, *communicator);
  const std::string call = call_name(trace, misuse.operation.call);
  Finding finding;
  finding.code = code;
  finding.severity = catalogue_row(code)->severity;
  finding.root = true;
  finding.culprits = {misuse.rank};
  finding.sides = {{misuse.rank}};
  finding.operation = call;
  finding.title = title_of(misuse, text, call, label);
  if (communicator != nullptr) {
    finding.communicator = {communicator->id, communicator->name, communicator->size};
  }
  const auto add_place = [&](uint32_t stack) {
    if (const auto place = user_place(trace, misuse.rank, stack)) {
      finding.where.push_back(*place);
    }
  };
  add_place(misuse.operation.stack);
  if (misuse.kind == MisuseKind::kAfterEnd) {
    add_place(text.ended_stack);
    finding.evidence.push_back(fmt::format("it ended at {}", run_time(run, text.ended)));
  }
  finding.evidence.push_back(
      fmt::format("{} at {} was refused", call, run_time(run, misuse.operation.enter)));
  add_victims(run, misuse, finding);
  if (misuse.is == MisuseIs::kConsequence) {
    finding.severity = Severity::kInfo;  // what it gave up is what is wrong
    finding.root = false;
    finding.culprits.clear();
    finding.evidence.push_back("it had been waiting in NCCL, and aborted for that");
  }
  finding.advice =
      misuse.kind == MisuseKind::kTooEarly
          ? "poll ncclCommGetAsyncError until it is no longer ncclInProgress before the next call"
          : "let nothing use a communicator once it is being aborted or destroyed";
  return finding;
}

}  // namespace

std::vector<Finding> find_misuse(const Run& run, MisuseKind kind, std::string_view code) {
  std::vector<Finding> findings;
  for (const Misuse& misuse : misuses_of(run)) {
    if (misuse.kind == kind) {
      findings.push_back(finding_about(run, misuse, code));
    }
  }
  return findings;
}

}  // namespace traintrace
