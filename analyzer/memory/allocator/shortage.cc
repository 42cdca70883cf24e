#include "analyzer/memory/allocator/shortage.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "analyzer/memory/allocator/caching_rules.h"
#include "analyzer/memory/allocator/free_space.h"
#include "analyzer/memory/allocator/retry.h"
#include "analyzer/memory/library_names.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
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

// Of PyTorch's allocator, or mapped into a segment of it.
struct Segment {
  Extent extent;
  bool small = false;
};

// What touches and is of one pool is one, where it was mapped piece by piece.
void add_segment(std::vector<Segment>& segments, const HeldBlockText& block, bool mapped) {
  const bool small = block.bytes == caching::kSmallSegment;
  if (mapped && !segments.empty() && segments.back().small == small &&
      segments.back().extent.address + segments.back().extent.bytes == block.address) {
    segments.back().extent.bytes += block.bytes;
    return;
  }
  segments.push_back({{block.address, block.bytes}, small});
}

struct Held {
  std::vector<Segment> segments;  // by address
  std::vector<Extent> used;
  uint64_t in_segments = 0;
};

// Ordered by streams, as PyTorch's backend cudaMallocAsync does.
bool is_of_driver_pool(std::string_view call) {
  return call.starts_with("cudaMallocAsync") || call.starts_with("cudaMallocFromPoolAsync") ||
         call.starts_with("cuMemAllocAsync") || call.starts_with("cuMemAllocFromPoolAsync");
}

Held held_by_pytorch(const ProcessTrace& trace, Shortage& shortage) {
  Held held;
  const DeviceOfFailure device(trace, *shortage.failure);
  for (const HeldBlockText& block : shortage.failure->held) {
    if (!device.has(block)) {
      continue;
    }
    if (is_report(trace, block.call)) {
      held.used.push_back({block.address, block.bytes});
      continue;
    }
    const std::string name = call_name(trace, block.call);
    const bool mapped = name.starts_with("cuMemMap");
    const auto kind = mapped ? std::optional(MemoryKind::kDevice) : kind_of_call(name);
    if (!kind || !on_device(*kind)) {
      continue;
    }
    shortage.in_driver_pool = shortage.in_driver_pool || is_of_driver_pool(name);
    const Owner owner = owner_of(trace, block.stack);
    // One memory, which has a handle, and addresses where it is mapped.
    const bool is_twice = owner == Owner::kTorch ? name.starts_with("cuMemCreate") : mapped;
    if (is_twice) {
      continue;
    }
    if (owner == Owner::kTorch) {
      add_segment(held.segments, block, mapped);
      held.in_segments = sum_of(held.in_segments, block.bytes);
    } else {
      uint64_t& of_owner = is_library(owner) ? shortage.libraries : shortage.job;
      of_owner = sum_of(of_owner, block.bytes);
      if (is_library(owner)) {
        uint64_t& of_library = shortage.by_library[library_name(trace, owner, block.stack)];
        of_library = sum_of(of_library, block.bytes);
      }
    }
  }
  return held;
}

// In segments of the request's pool.
void measure_holes(const Held& held, Shortage& shortage) {
  std::vector<Extent> extents;
  for (const Segment& segment : held.segments) {
    extents.push_back(segment.extent);
  }
  const auto free = free_space(extents, held.used);
  if (held.in_segments != shortage.failure->reserved || !free) {
    return;
  }
  const bool small = caching::is_small(shortage.failure->bytes);
  uint64_t holes = 0;
  uint64_t largest = 0;
  auto segment = held.segments.begin();
  for (const Extent& hole : free->holes) {
    while (segment != held.segments.end() &&
           hole.address - segment->extent.address >= segment->extent.bytes) {
      ++segment;
    }
    if (segment != held.segments.end() && segment->small == small) {
      holes = sum_of(holes, hole.bytes);
      largest = std::max(largest, hole.bytes);
    }
  }
  shortage.holes = holes;
  shortage.largest_idle = largest;
}

// The call that failed for it, just before PyTorch said so; null: the device was not asked, or
// that is not recorded.
const OutOfMemoryText* refused_call(const ProcessTrace& trace, const OutOfMemoryText& failure) {
  constexpr TimeNs kSoon = 10'000'000'000;  // cached segments are given back and it is tried again
  const OutOfMemoryText* found = nullptr;
  for (const OutOfMemoryText& call : trace.out_of_memory) {
    const bool here = call.device == failure.device || call.device == format::kNoDevice;
    if (call.result != 0 && call.number < failure.number && here && call.bytes >= failure.bytes &&
        elapsed(call.time, failure.time) < kSoon) {
      found = &call;
    }
  }
  return found;
}

// Recorded by the tracer, which misses no call that failed.
bool is_native(const ProcessTrace& trace) {
  return !trace.facts.contains("source") && !trace.out_of_memory.empty();
}

// Somebody else than PyTorch's allocator asked: of what that has cached, empty_cache() gives back
// segments in which nothing is used.
void add_cache_beside(const Held& held, bool by_allocator, Shortage& shortage) {
  uint64_t used = 0;
  for (const Extent& block : held.used) {
    used = sum_of(used, block.bytes);
  }
  uint64_t releasable = 0;
  for (const Segment& segment : held.segments) {
    const auto first = std::lower_bound(
        held.used.begin(), held.used.end(), segment.extent.address,
        [](const Extent& block, uint64_t address) { return block.address < address; });
    const bool is_used =
        first != held.used.end() && first->address - segment.extent.address < segment.extent.bytes;
    releasable = sum_of(releasable, is_used ? 0 : segment.extent.bytes);
  }
  shortage.job = sum_of(shortage.job, used);
  shortage.idle = without(held.in_segments, used);
  if (!by_allocator) {  // it would have given that back before it asked once more
    shortage.releasable = releasable;
  }
}

void add_up(const ProcessTrace& trace, Shortage& shortage) {
  const Held held = held_by_pytorch(trace, shortage);
  const OutOfMemoryText& failure = *shortage.failure;
  shortage.segment = failure.bytes;
  if (failure.reserved == 0 && counts_by_blocks(trace, failure)) {
    add_cache_beside(held, is_caching_allocator(trace, failure.stack), shortage);
    return;
  }
  if (failure.reserved == 0) {
    shortage.job = sum_of(shortage.job, held.in_segments);
    return;
  }
  shortage.job = sum_of(shortage.job, failure.allocated);
  shortage.idle = without(failure.reserved, failure.allocated);
  measure_holes(held, shortage);
  const OutOfMemoryText* const call = refused_call(trace, failure);
  shortage.refused = call != nullptr;
  shortage.segment = call != nullptr ? call->bytes : caching::segment_for(failure.bytes);
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

// What others have of the device, but for contexts.  What the driver's pool has and nobody uses may
// be all that they seem to hold.
std::optional<uint64_t> others_bytes(const Shortage& shortage) {
  return shortage.others && shortage.total && !shortage.in_driver_pool
             ? std::optional(without(*shortage.others, of_contexts(*shortage.total)))
             : std::nullopt;
}

// Others hold more than what lies in holes, and without that it would have fitted, too.
bool is_crowded_out(const Shortage& shortage) {
  const uint64_t holes = shortage.holes.value_or(shortage.idle.value_or(0));
  const uint64_t others = others_bytes(shortage).value_or(0);
  return others > holes && shortage.segment <= sum_of(shortage.free.value_or(0), others);
}

uint64_t own_bytes(const Shortage& shortage) {
  return sum_of(sum_of(shortage.job, shortage.libraries), shortage.idle.value_or(0));
}

// Of what the device had free then is not known how much others held: only what would not have
// fitted without them either is certain.
ShortageKind kind_alone(const Shortage& shortage) {
  const uint64_t room = room_alone(shortage);
  if (shortage.segment <= room) {
    return ShortageKind::kUnknown;
  }
  return shortage.segment <= sum_of(room, shortage.libraries) ? ShortageKind::kLibrary
                                                              : ShortageKind::kCapacity;
}

std::optional<uint64_t> whole_number(const std::string& text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

// Of the device, as its driver told at the start; none: it is not known, or which one it is.
std::optional<uint64_t> memory_of_device(const ProcessTrace& trace, uint8_t device) {
  const auto fact = trace.facts.find(fmt::format("gpu-{}-memory", device));
  return device == format::kNoDevice || fact == trace.facts.end() ? std::nullopt
                                                                  : whole_number(fact->second);
}

ShortageKind kind_of(const ProcessTrace& trace, const Shortage& shortage) {
  const uint64_t wanted = shortage.failure->bytes;
  if (wanted == 0) {
    return ShortageKind::kUnknown;
  }
  if (shortage.largest_idle && *shortage.largest_idle >= wanted) {
    return ShortageKind::kPendingFree;
  }
  const bool has_room = shortage.free && shortage.segment <= *shortage.free;
  if (shortage.failure->reserved != 0 && has_room && !shortage.refused && is_native(trace)) {
    return ShortageKind::kLimit;
  }
  // The device had as much, and refused it: it lies in pieces there.
  const bool in_pieces = shortage.failure->reserved != 0 && has_room && shortage.refused &&
                         *shortage.free >= shortage.total.value_or(0) / kMuchInHoles;
  if (in_pieces || would_fit_joined(shortage)) {
    return !has_room && is_crowded_out(shortage) ? ShortageKind::kNeighbour
                                                 : ShortageKind::kFragmentation;
  }
  if (has_room && shortage.failure->reserved != 0) {
    return ShortageKind::kCapacity;
  }
  const uint64_t cached = shortage.releasable.value_or(0);
  const uint64_t room_now =
      shortage.free.value_or(shortage.total ? room_alone(shortage) : uint64_t{0});
  if (shortage.segment > room_now && shortage.segment <= sum_of(room_now, cached)) {
    return ShortageKind::kCache;
  }
  if (!shortage.total) {
    return ShortageKind::kUnknown;
  }
  const std::optional<uint64_t> others = others_bytes(shortage);
  if (!others) {
    return kind_alone(shortage);
  }
  uint64_t room = sum_of(shortage.free.value_or(0), *others);
  if (shortage.segment <= room) {
    return ShortageKind::kNeighbour;
  }
  room = sum_of(room, shortage.libraries);
  return shortage.segment <= room ? ShortageKind::kLibrary : ShortageKind::kCapacity;
}

bool is_being_retried(const ProcessTrace& trace, const OutOfMemoryText& failure) {
  return !is_report(trace, failure.call) && !trace.tensor_devices.empty() &&
         trace.exit_kind == format::kNotExited && is_caching_allocator(trace, failure.stack);
}

}  // namespace

bool allocator_is_retrying(const ProcessTrace& trace) {
  return !trace.out_of_memory.empty() && is_being_retried(trace, trace.out_of_memory.back());
}

bool counts_by_blocks(const ProcessTrace& trace, const OutOfMemoryText& failure) {
  return failure.reserved != 0 || !trace.tensor_devices.empty();
}

DeviceOfFailure::DeviceOfFailure(const ProcessTrace& trace, const OutOfMemoryText& failure)
    : number_(failure.device), only_one_(trace.tensor_devices.size() <= 1) {
  if (number_ != format::kNoDevice) {
    return;
  }
  std::set<uint8_t> devices;
  for (const HeldBlockText& block : failure.held) {
    devices.insert(block.device);
  }
  devices.erase(format::kNoDevice);
  one_of_several_ = devices.size() > 1;
  if (devices.size() == 1) {
    number_ = *devices.begin();
  }
}

bool DeviceOfFailure::has(const HeldBlockText& block) const {
  return block.device == number_ || (block.device == format::kNoDevice && only_one_);
}

const OutOfMemoryText* fatal_failure(const ProcessTrace& trace) {
  if (trace.out_of_memory.empty()) {
    return nullptr;
  }
  const OutOfMemoryText* last = &trace.out_of_memory.back();
  for (const OutOfMemoryText& failure : trace.out_of_memory) {
    last = is_report(trace, failure.call) ? &failure : last;  // PyTorch's is the one that counts
  }
  if (is_being_retried(trace, *last)) {
    return nullptr;
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

std::optional<uint64_t> room_left(const ProcessTrace& trace) {
  std::optional<uint64_t> room;
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema =
        event.returned && event.result == 0 ? schema_of(trace, event.call) : nullptr;
    if (schema != nullptr && schema->kind == "memory-info") {
      room = value_of(trace, event, "free");
    }
  }
  return room;
}

Shortage shortage_of(const ProcessTrace& trace, const OutOfMemoryText& failure) {
  Shortage shortage;
  shortage.failure = &failure;
  if (!is_counted(failure)) {
    return shortage;
  }
  const DeviceOfFailure device(trace, failure);
  shortage.knows_device = !device.is_one_of_several();
  add_up(trace, shortage);
  if (const auto answer = device_at(trace, failure)) {
    shortage.free = answer->free;
    if (answer->total != 0) {
      shortage.total = answer->total;
      shortage.others = without(without(answer->total, answer->free), own_bytes(shortage));
    }
  }
  if (!shortage.total) {
    shortage.total = memory_of_device(trace, device.number());
  }
  shortage.kind = kind_of(trace, shortage);
  return shortage;
}

bool would_fit_joined(const Shortage& shortage) {
  const OutOfMemoryText& failure = *shortage.failure;
  const uint64_t free = shortage.free.value_or(0);
  if (failure.reserved == 0) {
    return failure.bytes <= free;
  }
  const uint64_t holes = shortage.holes.value_or(shortage.idle.value_or(0));
  return failure.bytes <= sum_of(holes, free) && holes >= failure.reserved / kMuchInHoles;
}

bool would_fit_without(const Shortage& shortage, uint64_t bytes) {
  const uint64_t wanted = std::max(shortage.segment, shortage.failure->bytes);
  return bytes != 0 && wanted <= sum_of(bytes, shortage.free.value_or(0));
}

uint64_t room_alone(const Shortage& shortage) {
  return without(shortage.total.value_or(0), own_bytes(shortage));
}

}  // namespace traintrace
