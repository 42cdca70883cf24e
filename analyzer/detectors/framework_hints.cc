#include "analyzer/detectors/framework_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/detectors/framework_calls.h"
#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

struct FrameworkOperation {
  Rank rank;
  const ProcessTrace* trace;
  const CommunicatorText* communicator;
  const OperationText* operation;
};

bool is_about_messages(const Finding& finding) {
  return finding.code.starts_with("p2p.");
}

// Of that rank, the operation that the finding is about.  Messages are counted by peer and
// direction; null: it has several of that number.
const OperationText* operation_of(const Finding& finding, const ProcessTrace& trace,
                                  const CommunicatorText& communicator) {
  const OperationText* found = nullptr;
  for (const OperationText& operation : communicator.recent) {
    if (operation.sequence != finding.sequence ||
        operation.collective == is_about_messages(finding) ||
        (!operation.collective && call_name(trace, operation.call) != finding.operation)) {
      continue;
    }
    if (found != nullptr) {
      return nullptr;
    }
    found = &operation;
  }
  return found;
}

// The calls that the finding is about, on its first ranks: those whose stacks name a framework.
std::vector<FrameworkOperation> framework_operations(const Run& run, const Finding& finding) {
  constexpr size_t kMostRanks = 4;
  Ranks ranks = finding.victims;
  ranks.insert(ranks.begin(), finding.culprits.begin(), finding.culprits.end());
  ranks.resize(std::min(ranks.size(), kMostRanks));
  std::vector<FrameworkOperation> all;
  for (const Communicator& communicator : run.communicators) {
    for (const Rank rank : ranks) {
      const Member* const member =
          communicator.id == finding.communicator->id ? member_of(communicator, rank) : nullptr;
      if (member == nullptr) {
        continue;
      }
      const ProcessTrace& trace = run.processes[member->process];
      const OperationText* const operation = operation_of(finding, trace, text_of(run, *member));
      if (operation != nullptr &&
          framework_call_of(trace, *operation).call != FrameworkCall::kNone) {
        all.push_back({rank, &trace, &text_of(run, *member), operation});
      }
    }
  }
  return all;
}

// One for each that is something else to its framework.
void add_words(const std::vector<FrameworkOperation>& operations,
               std::vector<std::string>& evidence) {
  constexpr size_t kMostLines = 2;
  std::vector<std::string> said;
  for (const auto& [rank, trace, communicator, operation] : operations) {
    std::string words = framework_words(*trace, *communicator, *operation);
    if (words.empty() || said.size() == kMostLines ||
        std::find(said.begin(), said.end(), words) != said.end()) {
      continue;
    }
    evidence.push_back(fmt::format("rank {} called {} #{} as {}", rank.value,
                                   call_name(*trace, operation->call), operation->sequence, words));
    said.push_back(std::move(words));
  }
}

bool is_any(const std::vector<FrameworkOperation>& operations, FrameworkCall call) {
  return std::any_of(operations.begin(), operations.end(), [&](const FrameworkOperation& one) {
    return framework_call_of(*one.trace, *one.operation).call == call;
  });
}

bool ended_well(const Finding& finding) {
  return std::find(finding.values.begin(), finding.values.end(),
                   std::pair<std::string, int64_t>("status", 0)) != finding.values.end();
}

// A culprit is inside a call, or polls: where it parted from the others, a call came of it.  One
// that is in none is held up outside of all that.
bool one_is_in_a_call(const Run& run, const Finding& finding) {
  return std::any_of(finding.culprits.begin(), finding.culprits.end(), [&](Rank rank) {
    const RankState* const state = state_of(run, rank);
    const auto activity = state == nullptr ? std::nullopt : activity_of(run, *state);
    return activity && (activity->open || activity->queries > 0);
  });
}

// Empty: there is none for such a finding.
std::string_view hint_for(const Run& run, const std::vector<FrameworkOperation>& operations,
                          const Finding& finding) {
  if (is_about_messages(finding)) {
    const FrameworkOperation& first = operations.front();
    if (!framework_call_of(*first.trace, *first.operation).batched) {
      return "";
    }
    return finding.code.starts_with("p2p.missing-")
               ? "hint: PyTorch's batch_isend_irecv made these calls: each isend in the list of "
                 "one rank needs an irecv in that of its peer, and the other way round"
               : "hint: PyTorch's batch_isend_irecv made these calls: its list must name the "
                 "messages between two ranks in the same order on both";
  }
  const bool buckets = is_any(operations, FrameworkCall::kGradientBucket);
  if (finding.code == "collective.early-exit") {
    const bool is_of_ddp = buckets || is_any(operations, FrameworkCall::kDataParallel);
    return !is_of_ddp || !ended_well(finding)
               ? ""
               : "hint: these calls look like DistributedDataParallel's: with uneven inputs, "
                 "torch.distributed.algorithms.Join lets ranks that are through keep up with the "
                 "others";
  }
  if (finding.code == "collective.missing-rank" && !one_is_in_a_call(run, finding)) {
    return "";
  }
  // Who has no trace may have done anything.
  return !buckets || finding.culprits.empty()
             ? ""
             : "hint: these calls look like DistributedDataParallel's, from a backward pass: they "
               "differ between ranks where parameters get no gradient on one "
               "(find_unused_parameters), where one makes a pass more (no_sync, uneven inputs), or "
               "where buckets were rebuilt differently";
}

bool is_about_order(std::string_view code) {
  return code.starts_with("collective.") || code.starts_with("p2p.");
}

}  // namespace

void add_framework_hints(const Run& run, std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    if (!finding.root || finding.severity != Severity::kError || !finding.communicator ||
        !finding.sequence || !is_about_order(finding.code)) {
      continue;
    }
    const std::vector<FrameworkOperation> operations = framework_operations(run, finding);
    if (operations.empty()) {
      continue;
    }
    add_words(operations, finding.evidence);
    const std::string_view hint = hint_for(run, operations, finding);
    if (!hint.empty()) {
      finding.evidence.emplace_back(hint);
    }
  }
}

}  // namespace traintrace
