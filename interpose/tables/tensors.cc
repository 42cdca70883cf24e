#include "interpose/tables/tensors.h"

#include "interpose/record/growth.h"
#include "interpose/record/stats.h"
#include "interpose/tables/live_index.h"

namespace traintrace {
namespace {

LiveIndex g_index;

void block_taken(const TensorReport& report) {
  const LiveIndex::Taken place = g_index.take_or_grow(report.address, kGrowTensorBlocks);
  if (place.index == LiveIndex::kNone) {
    count(format::Stat::TensorBlocksFull);
    return;
  }
  replace(g_tables.tensor_blocks[place.index],
          {report.address,
           static_cast<uint64_t>(report.change),
           report.ticks,
           report.stack,
           report.device,
           {}},
          format::freed_at(0));
}

void block_given_back(const TensorReport& report) {
  const uint32_t index = g_index.find(report.address);
  if (index == LiveIndex::kNone) {
    count(format::Stat::UnknownTensorFree);
    return;
  }
  publish(g_tables.tensor_blocks[index].address, format::freed_at(report.ticks));
  g_index.give_back(index);
}

void block_changed(const TensorReport& report) {
  if (report.address == 0 || (report.address & 1) != 0) {
    count(format::Stat::TensorWithoutAddress);
  } else if (report.change > 0) {
    block_taken(report);
  } else if (report.change < 0) {
    block_given_back(report);
  }
}

// The one writer at a time is who holds the allocator's lock.
template <class T>
void store(T& word, T value) {
  __atomic_store_n(&word, value, __ATOMIC_RELAXED);
}
template <class T>
void add(T& word, T value) {
  store(word, static_cast<T>(static_cast<uint64_t>(word) + static_cast<uint64_t>(value)));
}

void note_totals(const TensorReport& report) {
  format::TensorDevice& device = g_tables.tensor_devices[report.device];
  if (load(device.ticks) == 0 && report.has_totals) {
    store(device.before, report.allocated - static_cast<uint64_t>(report.change));
  }
  add(device.change, report.change);
  add(report.change > 0 ? device.allocations : device.frees, uint64_t{1});
  store(device.allocated, report.allocated);
  store(device.reserved, report.reserved);
  if (report.allocated > device.peak_allocated) {
    store(device.peak_allocated, report.allocated);
    store(device.peak_ticks, report.ticks);
  }
  if (report.reserved > device.peak_reserved) {
    store(device.peak_reserved, report.reserved);
  }
  publish(device.ticks, report.ticks);
}

}  // namespace

void tensor_reported(const TensorReport& report) noexcept {
  block_changed(report);
  if (report.device < g_tables.tensor_device_count) {
    note_totals(report);
  }
}

void tensors_start() noexcept {
  g_index.start(ready_bytes(g_tables.file, format::kTensorBlocks) / sizeof(format::TensorBlock));
}

bool tensors_grow() noexcept {
  const uint64_t elements = elements_before_step(g_index.steps() + 1);
  return g_index.steps() < kMostTableSteps &&
         grow_to(format::kTensorBlocks, elements * sizeof(format::TensorBlock)) && g_index.grow();
}

void tensors_drop() noexcept {
  g_index.drop();
}

}  // namespace traintrace
