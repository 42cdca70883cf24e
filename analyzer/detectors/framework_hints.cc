#include "analyzer/detectors/framework_hints.h"

#include <algorithm>
#include <string_view>

namespace traintrace {
namespace {

enum class Caller : uint8_t { kOther, kBatch, kDataParallel };

bool is_of_torch(const ProcessTrace& trace, uint64_t address) {
  return std::any_of(trace.modules.begin(), trace.modules.end(), [&](const ModuleText& module) {
    return address >= module.begin && address < module.end &&
           module.path.find("libtorch") != std::string::npos;
  });
}

Caller caller_of(const ProcessTrace& trace, const OperationText& operation) {
  const auto stack = trace.stacks.find(operation.stack);
  if (stack == trace.stacks.end()) {
    return Caller::kOther;
  }
  for (const PythonFrameText& frame : stack->second.python) {
    if (frame.function == "batch_isend_irecv") {
      return Caller::kBatch;
    }
    if (frame.file.ends_with("torch/nn/parallel/distributed.py")) {
      return Caller::kDataParallel;
    }
  }
  // A thread of the autograd engine, which DDP sends from, has no Python.
  const bool engine = stack->second.python.empty() && operation.collective &&
                      std::any_of(stack->second.native.begin(), stack->second.native.end(),
                                  [&](uint64_t address) { return is_of_torch(trace, address); });
  return engine ? Caller::kDataParallel : Caller::kOther;
}

// Of the calls that the finding is about, on its first ranks.
Caller caller_of(const Run& run, const Finding& finding) {
  constexpr size_t kMostRanks = 4;
  Ranks ranks = finding.victims;
  ranks.insert(ranks.begin(), finding.culprits.begin(), finding.culprits.end());
  ranks.resize(std::min(ranks.size(), kMostRanks));
  for (const Communicator& communicator : run.communicators) {
    for (const Rank rank : ranks) {
      const Member* member =
          communicator.id == finding.communicator->id ? member_of(communicator, rank) : nullptr;
      for (const OperationText& operation :
           member == nullptr ? std::vector<OperationText>{} : text_of(run, *member).recent) {
        const Caller caller = operation.sequence == finding.sequence
                                  ? caller_of(run.processes[member->process], operation)
                                  : Caller::kOther;
        if (caller != Caller::kOther) {
          return caller;
        }
      }
    }
  }
  return Caller::kOther;
}

const char* hint_for(Caller caller, std::string_view code) {
  if (caller == Caller::kBatch) {
    return "hint: PyTorch's batch_isend_irecv made these calls: its list must name the messages "
           "between two ranks in the same order on both";
  }
  if (code == "collective.early-exit") {
    return "hint: these calls look like DistributedDataParallel's: with uneven inputs, "
           "torch.distributed.algorithms.Join lets ranks that are through keep up with the others";
  }
  return "hint: these calls look like DistributedDataParallel's, from a backward pass: they differ "
         "between ranks where parameters get no gradient on one (find_unused_parameters), where "
         "one "
         "makes a pass more (no_sync, uneven inputs), or where buckets were rebuilt differently";
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
    const Caller caller = caller_of(run, finding);
    if (caller != Caller::kOther &&
        (caller == Caller::kBatch) == finding.code.starts_with("p2p.")) {
      finding.evidence.emplace_back(hint_for(caller, finding.code));
    }
  }
}

}  // namespace traintrace
