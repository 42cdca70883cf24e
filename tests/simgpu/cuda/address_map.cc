#include "cuda/address_map.h"

#include <iterator>
#include <mutex>

namespace simgpu {

uint64_t Range::next_id() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

AddressMap& address_map() {
  static AddressMap& map = *new AddressMap;
  return map;
}

AddressMap::Ranges::const_iterator AddressMap::containing(uintptr_t address) const {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) {
    return ranges_.end();
  }
  const auto candidate = std::prev(after);
  return address < candidate->second->end() ? candidate : ranges_.end();
}

bool AddressMap::insert(RangePtr range) {
  const std::unique_lock lock(mutex_);
  const auto after = ranges_.lower_bound(range->base);
  if (after != ranges_.end() && after->first < range->end()) {
    return false;
  }
  if (after != ranges_.begin() && std::prev(after)->second->end() > range->base) {
    return false;
  }
  ranges_.emplace_hint(after, range->base, std::move(range));
  return true;
}

RangePtr AddressMap::find(uintptr_t address) const {
  const std::shared_lock lock(mutex_);
  const auto found = containing(address);
  return found == ranges_.end() ? nullptr : found->second;
}

bool AddressMap::pin(uintptr_t address, size_t bytes, Pin& pin) const {
  const std::shared_lock lock(mutex_);
  auto found = containing(address);
  if (found == ranges_.end()) {
    return false;
  }
  pin.first = found->second;
  uintptr_t end = pin.first->end();
  while (end - address < bytes) {
    ++found;
    if (found == ranges_.end() || found->first != end ||
        found->second->kind != RangeKind::kVirtual || pin.first->kind != RangeKind::kVirtual) {
      return false;
    }
    pin.more.push_back(found->second);
    end = found->second->end();
  }
  return true;
}

RangePtr AddressMap::remove(uintptr_t base, const std::function<bool(const Range&)>& condition) {
  const std::unique_lock lock(mutex_);
  const auto found = ranges_.find(base);
  if (found == ranges_.end() || !condition(*found->second)) {
    return nullptr;
  }
  RangePtr range = found->second;
  ranges_.erase(found);
  return range;
}

std::vector<RangePtr> AddressMap::remove_if(const std::function<bool(const Range&)>& condition) {
  std::vector<RangePtr> removed;
  const std::unique_lock lock(mutex_);
  for (auto range = ranges_.begin(); range != ranges_.end();) {
    if (condition(*range->second)) {
      removed.push_back(std::move(range->second));
      range = ranges_.erase(range);
    } else {
      ++range;
    }
  }
  return removed;
}

std::vector<RangePtr> AddressMap::overlapping(uintptr_t address, size_t bytes) const {
  std::vector<RangePtr> found;
  const std::shared_lock lock(mutex_);
  auto range = containing(address);
  if (range == ranges_.end()) {
    range = ranges_.lower_bound(address);
  }
  for (; range != ranges_.end() && range->first < address + bytes; ++range) {
    found.push_back(range->second);
  }
  return found;
}

}  // namespace simgpu
