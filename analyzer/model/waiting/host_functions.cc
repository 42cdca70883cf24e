#include "analyzer/model/waiting/host_functions.h"

#include <algorithm>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/model/waiting/stream_order.h"

namespace traintrace {
namespace {

bool lies_before(const Run& run, size_t process, const HostFunctionText& function,
                 const OperationText& operation) {
  // Where a stream is after an abort says nothing any more.
  if (function.stream == 0 || operation.position == 0 ||
      operation.position == format::kNeverReached) {
    return false;
  }
  return function.stream == operation.stream
             ? function.position < operation.position
             : is_told_behind(run, process, {function.stream, function.enqueued}, operation);
}

// When the last function before it had returned; 0: there was none, as far as is kept.
TimeNs released(const Run& run, const StalledRank& rank) {
  TimeNs last = 0;
  for (const HostFunctionText& function : run.processes[rank.process].host_functions) {
    if (lies_before(run, rank.process, function, rank.operation)) {
      last = std::max(last, function.left);
    }
  }
  return last;
}

}  // namespace

const HostFunctionText* function_before(const Run& run, size_t process,
                                        const OperationText& operation) {
  for (const HostFunctionText& function : run.processes[process].host_functions) {
    if (function.entered != 0 && function.left == 0 &&
        lies_before(run, process, function, operation)) {
      return &function;
    }
  }
  return nullptr;
}

bool is_at_work(const Run& run, const Stall& stall) {
  return stall.finished.empty() &&
         std::any_of(stall.ranks.begin(), stall.ranks.end(),
                     [&](const StalledRank& rank) {
                       return function_before(run, rank.process, rank.operation) != nullptr;
                     }) &&
         std::all_of(stall.ranks.begin(), stall.ranks.end(), [&](const StalledRank& rank) {
           if (function_before(run, rank.process, rank.operation) != nullptr) {
             return true;
           }
           const TimeNs since = released(run, rank);
           return since != 0 &&
                  elapsed(since, end_for(run, run.processes[rank.process])) < run.hang_after;
         });
}

}  // namespace traintrace
