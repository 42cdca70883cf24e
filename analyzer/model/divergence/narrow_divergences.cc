#include "analyzer/model/divergence/narrow_divergences.h"

#include <algorithm>
#include <optional>

#include "analyzer/model/divergence/left_out.h"
#include "analyzer/model/divergence/older_messages.h"
#include "analyzer/model/event_operations.h"
#include "analyzer/model/sequences.h"

namespace traintrace {
namespace {

// As many as an alignment looks at.
constexpr uint64_t kBefore = 16;
constexpr uint64_t kBehind = 240;

bool is_a_range(const Divergence& divergence) {
  const bool of_one = divergence.kind == DivergenceKind::kSkipped ||
                      divergence.kind == DivergenceKind::kExtra ||
                      divergence.kind == DivergenceKind::kUnknown;
  return of_one && !divergence.by_site && !divergence.counted &&
         divergence.sequence_last > divergence.sequence;
}

// The first of the range at which they differ, if all before it are there.
std::optional<uint64_t> first_difference(const EventOperations& own, const EventOperations& normal,
                                         const Divergence& divergence) {
  for (uint64_t number = divergence.sequence; number <= divergence.sequence_last; ++number) {
    const auto a = own.find(number);
    const auto b = normal.find(number);
    if (a == own.end() || b == normal.end()) {
      return std::nullopt;
    }
    if (a->second.key != b->second.key) {
      return number;
    }
  }
  return std::nullopt;
}

Sequence part_of(const EventOperations& operations, const Member& member, uint64_t around) {
  Sequence part;
  part.member = &member;
  part.first = around > kBefore ? around - kBefore : 1;
  for (auto at = operations.lower_bound(part.first);
       at != operations.end() && at->first == part.first + part.items.size() &&
       at->first <= around + kBehind;
       ++at) {
    part.items.push_back(at->second);
  }
  part.reached = part.first - 1 + part.items.size();
  return part;
}

void narrow(const Run& run, const ReadEvents& read_events, Divergence& divergence) {
  const Communicator& communicator = run.communicators[divergence.communicator];
  const Member* const deviant = member_of(communicator, divergence.deviants.front());
  const Member* const other = member_of(communicator, divergence.others.front());
  const ProcessTrace* const own_trace = read_events(run.processes[deviant->process]);
  if (own_trace == nullptr) {
    return;
  }
  const EventOperations own = event_operations(*own_trace, deviant->element);
  const ProcessTrace* const other_trace = read_events(run.processes[other->process]);
  if (other_trace == nullptr) {
    return;
  }
  const EventOperations normal = event_operations(*other_trace, other->element);
  const auto number = first_difference(own, normal, divergence);
  if (!number) {
    return;
  }
  const Divergence found =
      difference_at(part_of(own, *deviant, *number), part_of(normal, *other, *number), *number);
  divergence.kind = found.kind;
  divergence.sequence = found.sequence;
  divergence.sequence_last = found.sequence_last;
  divergence.length = found.length;
  divergence.matches = found.matches;
  divergence.exact = found.exact;
  divergence.own = found.own;
  divergence.expected = found.expected;
  divergence.own_second = found.own_second;
}

}  // namespace

void narrow_divergences(Run& run, const ReadEvents& read_events) {
  constexpr size_t kMost = 16;  // each takes the events of two processes
  size_t narrowed = 0;
  for (Divergence& divergence : run.divergences) {
    if ((!is_a_range(divergence) && !divergence.open) || divergence.deviants.empty() ||
        divergence.others.empty() || narrowed++ >= kMost) {
      continue;
    }
    if (is_a_range(divergence)) {
      narrow(run, read_events, divergence);
    }
    take_for_left_out(run, read_events, divergence);
  }
  find_older_messages(run, read_events);
}

}  // namespace traintrace
