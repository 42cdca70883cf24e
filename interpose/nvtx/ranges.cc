#include "interpose/nvtx/ranges.h"

#include <string.h>

#include "interpose/base/undisturbed.h"
#include "interpose/record/definitions.h"
#include "interpose/record/growth.h"
#include "interpose/record/id_table.h"
#include "interpose/record/stats.h"

namespace traintrace {
namespace {

using format::kMostOpenRanges;
using format::OpenRange;
using format::OpenRanges;

constexpr uint32_t kPlaces = 1U << 16;
constexpr uint32_t kMostNames = 1U << 15;
// Stacks need the rest.
constexpr uint64_t kShareOfDefinitions = 4;

constexpr uint64_t kOneMore = uint64_t{1} << 16;  // of OpenRanges::state
constexpr uint64_t kDepth = kOneMore - 1;

IdTable g_names;
uint32_t g_name_count;
uint64_t g_name_bytes;
bool g_names_full;

void define(ThreadState& thread, uint32_t id, const Registered* domain, const RangeName& name,
            uint64_t bytes) {
  auto* const definition = static_cast<format::RangeNameDefinition*>(
      begin_definition(thread, format::kRangeName, bytes));
  if (definition == nullptr) {
    return;
  }
  definition->id = id;
  definition->domain_bytes = domain == nullptr ? 0 : domain->bytes;
  definition->name_bytes = name.bytes;
  char* text = reinterpret_cast<char*>(definition + 1);
  if (domain != nullptr) {
    text = append(text, domain->text, domain->bytes);
  }
  append(text, name.text, name.bytes);
  commit_definition(thread, definition);
}

// Whoever comes first counts; two that come at once may both do.
bool there_is_room(uint64_t bytes) {
  const uint64_t most = uint64_t{g_tables.definition_chunk_bytes} *
                        g_tables.definition_chunk_count / kShareOfDefinitions;
  return !load(g_names_full) && fetch_add(g_name_count, 1U) < kMostNames &&
         fetch_add(g_name_bytes, bytes) + bytes <= most;
}

[[gnu::noinline]] uint32_t first_seen(ThreadState& thread, const Registered* domain,
                                      const RangeName& name) {
  const Undisturbed undisturbed;
  const uint64_t bytes =
      sizeof(format::RangeNameDefinition) + name.bytes + (domain == nullptr ? 0 : domain->bytes);
  if (!there_is_room(bytes)) {
    publish(g_names_full, true);
    return 0;
  }
  bool is_new = false;
  const uint32_t id = g_names.add(name.hash, is_new);
  if (is_new) {
    define(thread, id, domain, name, bytes);
  }
  return id;
}

// Null: no memory.
[[gnu::noinline]] OpenRanges* first_push(ThreadState& thread) {
  const auto index = static_cast<uint64_t>(thread.slot - g_tables.threads);
  const uint64_t end = (index + 1) * sizeof(OpenRanges);
  if (thread.ranges_refused || index >= g_tables.open_ranges_count ||
      (end > ready_bytes(g_tables.file, format::kOpenRanges) &&
       !grow_to(format::kOpenRanges, end))) {
    thread.ranges_refused = true;
    return nullptr;
  }
  OpenRanges& ranges = g_tables.open_ranges[index];
  publish(ranges.state, uint64_t{0});  // of a thread before this one
  store_fence();
  ranges.thread = thread.slot->serial;
  ranges.deeper = 0;
  publish(ranges.state, kOneMore);
  thread.ranges = &ranges;
  return &ranges;
}

void write_name(OpenRange& range, const RangeName& name) {
  const size_t bytes = name.bytes < sizeof range.name ? name.bytes : sizeof range.name;
  memset(range.name, 0, sizeof range.name);
  memcpy(range.name, name.text, bytes);
}

}  // namespace

uint32_t id_of_range(ThreadState& thread, const Registered* domain,
                     const RangeName& name) noexcept {
  if (domain != nullptr && load(domain->ready) == 0) {
    return 0;
  }
  uint32_t id = g_names.find(name.hash);
  if (id == 0) [[unlikely]] {
    id = load(g_names_full) ? 0 : first_seen(thread, domain, name);
    if (id == 0) {
      count(format::Stat::RangeNamesFull);
    }
  }
  return id;
}

// Above `state`'s depth no reader looks.
void range_opened(ThreadState& thread, uint32_t domain, uint32_t id, const RangeName& name,
                  uint64_t ticks) noexcept {
  OpenRanges* const table = thread.ranges != nullptr ? thread.ranges : first_push(thread);
  if (table == nullptr) [[unlikely]] {
    return;
  }
  OpenRanges& ranges = *table;
  const uint64_t depth = ranges.state & kDepth;
  if (depth == kMostOpenRanges) {
    publish(ranges.deeper, ranges.deeper + 1);
    count(format::Stat::RangesDeep);
    return;
  }
  store_fence();
  OpenRange& range = ranges.ranges[depth];
  range.began_ticks = ticks;
  range.range = id;
  range.domain = domain;
  if (id == 0) [[unlikely]] {
    write_name(range, name);
  }
  publish(ranges.state, ranges.state + kOneMore + 1);
}

// Domains have stacks of their own, which need not nest in one another: one that is not on top
// leaves a hole, which goes with what is above it.
bool range_closed(ThreadState& thread, uint32_t domain, uint32_t& id, uint32_t wanted) noexcept {
  id = 0;
  if (thread.ranges == nullptr) {
    return thread.ranges_refused;
  }
  OpenRanges& ranges = *thread.ranges;
  if (ranges.deeper != 0) {
    publish(ranges.deeper, ranges.deeper - 1);
    return true;
  }
  const uint64_t before = ranges.state & kDepth;
  uint64_t at = before;
  while (at > 0 &&
         (ranges.ranges[at - 1].domain != domain || ranges.ranges[at - 1].began_ticks == 0 ||
          (wanted != 0 && ranges.ranges[at - 1].range != wanted))) {
    --at;
  }
  if (at == 0) {
    return false;
  }
  id = ranges.ranges[at - 1].range;
  publish(ranges.ranges[at - 1].began_ticks, uint64_t{0});
  uint64_t depth = before;
  while (depth > 0 && ranges.ranges[depth - 1].began_ticks == 0) {
    --depth;
  }
  publish(ranges.state, ranges.state + kOneMore - (before - depth));
  return true;
}

// What is open in the same place has no beginning while it is changed, so that no reader takes half
// of it.
void range_replaced(ThreadState& thread, uint32_t domain, const RangeName& name,
                    uint64_t ticks) noexcept {
  OpenRanges* const ranges = thread.ranges;
  const uint64_t depth = ranges == nullptr ? 0 : ranges->state & kDepth;
  for (uint64_t at = 0; at < depth; ++at) {
    OpenRange& range = ranges->ranges[at];
    if (range.domain == domain && range.began_ticks != 0) {
      publish(range.began_ticks, uint64_t{0});
      publish(ranges->state, ranges->state + kOneMore);
      store_fence();
      write_name(range, name);
      publish(range.began_ticks, ticks);
      publish(ranges->state, ranges->state + kOneMore);
      return;
    }
  }
  range_opened(thread, domain, 0, name, ticks);
}

void ranges_start() noexcept {
  g_names.start(kPlaces);
  g_name_count = 0;
  g_name_bytes = 0;
  g_names_full = false;
}

void ranges_drop() noexcept {
  g_names.drop();
}

}  // namespace traintrace
