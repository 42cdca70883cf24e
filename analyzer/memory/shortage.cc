#include "analyzer/memory/shortage.h"

#include <algorithm>

#include "analyzer/memory/free_space.h"
#include "analyzer/model/activity.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// What a context takes of a device is no neighbour's.
uint64_t of_contexts(uint64_t total) {
  return std::min(kContextBytes, total / kContextShare);
}
uint64_t without(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

bool is_report(const ProcessTrace& trace, uint32_t call) {
  const CallSchema* schema = schema_of(trace, call);
  return schema != nullptr && schema->kind.starts_with("tensor-");
}

void add_up(const ProcessTrace& trace, Shortage& shortage) {
  std::vector<Extent> segments;
  std::vector<Extent> used;
  uint64_t in_segments = 0;
  for (const HeldBlockText& block : shortage.failure->held) {
    if (block.device != shortage.failure->device) {
      continue;
    }
    if (is_report(trace, block.call)) {
      used.push_back({block.address, block.bytes});
      continue;
    }
    const auto kind = kind_of_call(call_name(trace, block.call));
    if (!kind || !on_device(*kind)) {
      continue;
    }
    const Owner owner = owner_of(trace, block.stack);
    if (owner == Owner::kTorch) {
      segments.push_back({block.address, block.bytes});
      in_segments = sum_of(in_segments, block.bytes);
    } else {
      uint64_t& of_owner = is_library(owner) ? shortage.libraries : shortage.job;
      of_owner = sum_of(of_owner, block.bytes);
    }
  }
  const OutOfMemoryText& failure = *shortage.failure;
  if (failure.reserved != 0) {
    shortage.job = sum_of(shortage.job, failure.allocated);
    shortage.idle = without(failure.reserved, failure.allocated);
    const auto free = free_space(segments, used);
    if (in_segments == failure.reserved && free) {
      shortage.largest_idle = free->largest;
    }
  } else {
    shortage.job = sum_of(shortage.job, in_segments);
  }
}

// Between these times the process took or gave back memory.
bool has_changed(const ProcessTrace& trace, TimeNs from, TimeNs to) {
  return std::any_of(trace.allocations.begin(), trace.allocations.end(),
                     [&](const AllocationText& allocation) {
                       return allocation.time > from && allocation.time < to;
                     }) ||
         std::any_of(trace.events.begin(), trace.events.end(), [&](const CallRecord& event) {
           const CallSchema* schema = schema_of(trace, event.call);
           return schema != nullptr && event.enter > from && event.enter < to &&
                  event.result == 0 && (schema->kind == "alloc" || schema->kind == "free");
         });
}

// What the device had when the job asked.
struct Answer {
  TimeNs asked = 0;
  uint64_t free = 0;
  uint64_t total = 0;  // 0: not told, as in PyTorch's snapshots
};

// The first answer behind the failure: many ask only then, for what they say when they give up.
std::optional<Answer> asked_behind(const ProcessTrace& trace, const OutOfMemoryText& failure) {
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema =
        event.enter > failure.time && event.returned && event.result == 0 && !event.enter_lost
            ? schema_of(trace, event.call)
            : nullptr;
    if (schema != nullptr && schema->kind == "memory-info" && event.device == failure.device) {
      return Answer{event.enter, value_of(trace, event, "free").value_or(0),
                    value_of(trace, event, "total").value_or(0)};
    }
  }
  return std::nullopt;
}

// It is of the moment when the job asked.
bool is_of_failure(const ProcessTrace& trace, const OutOfMemoryText& failure,
                   const Answer& answer) {
  const auto [first, last] = std::minmax(answer.asked, failure.time);
  return elapsed(first, last) <= kAnswerFresh && !has_changed(trace, first, last);
}

std::optional<Answer> device_at(const ProcessTrace& trace, const OutOfMemoryText& failure) {
  const Answer before = {failure.asked, failure.free, failure.total};
  if ((before.total != 0 || before.free != 0) && is_of_failure(trace, failure, before)) {
    return before;
  }
  const std::optional<Answer> behind = asked_behind(trace, failure);
  return behind && behind->total != 0 && is_of_failure(trace, failure, *behind) ? behind
                                                                                : std::nullopt;
}

ShortageKind kind_of(const Shortage& shortage) {
  const uint64_t wanted = shortage.failure->bytes;
  uint64_t room = shortage.free.value_or(0);
  room = sum_of(room, shortage.idle.value_or(0));
  if (wanted == 0) {
    return ShortageKind::kUnknown;
  }
  if (shortage.largest_idle && *shortage.largest_idle >= wanted) {
    return ShortageKind::kPendingFree;
  }
  if (wanted <= room) {
    return ShortageKind::kFragmentation;
  }
  if (!shortage.total || !shortage.others) {
    return ShortageKind::kUnknown;
  }
  room = sum_of(room, without(*shortage.others, of_contexts(*shortage.total)));
  if (wanted <= room) {
    return ShortageKind::kNeighbour;
  }
  room = sum_of(room, shortage.libraries);
  return wanted <= room ? ShortageKind::kLibrary : ShortageKind::kCapacity;
}

}  // namespace

const OutOfMemoryText* fatal_failure(const ProcessTrace& trace) {
  if (trace.out_of_memory.empty()) {
    return nullptr;
  }
  const OutOfMemoryText* last = &trace.out_of_memory.back();
  for (const OutOfMemoryText& failure : trace.out_of_memory) {
    last = is_report(trace, failure.call) ? &failure : last;  // PyTorch's is the one that counts
  }
  const bool worked_on =
      std::any_of(trace.communicators.begin(), trace.communicators.end(),
                  [&](const CommunicatorText& text) { return text.last > last->time; }) ||
      std::any_of(trace.allocations.begin(), trace.allocations.end(),
                  [&](const AllocationText& allocation) {
                    return allocation.time > last->time && allocation.bytes >= last->bytes;
                  }) ||
      std::any_of(trace.tensor_blocks.begin(), trace.tensor_blocks.end(),
                  [&](const TensorBlockText& block) { return block.time > last->time; }) ||
      std::any_of(trace.events.begin(), trace.events.end(), [&](const CallRecord& event) {
        const CallSchema* schema =
            event.enter > last->time ? schema_of(trace, event.call) : nullptr;
        return schema != nullptr && event.result == 0 &&
               (schema->kind == "launch" || schema->kind == "graph-launch");
      });
  return worked_on ? nullptr : last;
}

Shortage shortage_of(const ProcessTrace& trace, const OutOfMemoryText& failure) {
  Shortage shortage;
  shortage.failure = &failure;
  if (!is_counted(failure)) {
    return shortage;
  }
  add_up(trace, shortage);
  if (const auto answer = device_at(trace, failure)) {
    shortage.free = answer->free;
    if (answer->total != 0) {
      shortage.total = answer->total;
      const uint64_t own =
          sum_of(sum_of(shortage.job, shortage.libraries), shortage.idle.value_or(0));
      shortage.others = without(without(answer->total, answer->free), own);
    }
  }
  shortage.kind = kind_of(shortage);
  return shortage;
}

}  // namespace traintrace
