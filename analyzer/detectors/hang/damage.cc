#include "analyzer/detectors/hang/damage.h"

#include <algorithm>

namespace traintrace {
namespace {

bool has_all_members(const Communicator& communicator) {
  return communicator.size >= 0 &&
         static_cast<int>(communicator.members.size()) >= communicator.size;
}

}  // namespace

bool may_hide_a_rank(const Run& run) {
  return !run.unreadable.empty() &&
         (!run.missing.empty() || run.communicators.empty() ||
          !std::all_of(run.communicators.begin(), run.communicators.end(), has_all_members));
}

bool are_calls_damaged(const ProcessTrace& trace) {
  const auto damaged = trace.facts.find("damaged");
  return !trace.errors.empty() && (damaged == trace.facts.end() || damaged->second != "memory");
}

}  // namespace traintrace
