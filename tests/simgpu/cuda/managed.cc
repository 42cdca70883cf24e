#include "cuda/managed.h"

#include <iterator>
#include <map>
#include <mutex>

#include "cuda/memory.h"

namespace simgpu {
namespace {

bool same(const CUmemLocation& a, const CUmemLocation& b) {
  return a.type == b.type && a.id == b.id;
}

// The advice from each address on, up to the next entry.  Addresses before the first entry have
// none.
struct AdviceMap {
  std::mutex mutex;
  std::map<uintptr_t, Advice> from;

  // An entry at exactly `address`, with what holds there.
  std::map<uintptr_t, Advice>::iterator split(uintptr_t address) {
    const auto at = from.lower_bound(address);
    if (at != from.end() && at->first == address) {
      return at;
    }
    return from.emplace_hint(at, address, at == from.begin() ? Advice{} : std::prev(at)->second);
  }
};
AdviceMap& advice_map() {
  static AdviceMap& map = *new AdviceMap;
  return map;
}

uintptr_t first_page(uintptr_t address) {
  return address / kPageBytes * kPageBytes;
}

}  // namespace

bool Advice::operator==(const Advice& other) const {
  return read_mostly == other.read_mostly && same(preferred, other.preferred) &&
         same(prefetched, other.prefetched) && accessed_by == other.accessed_by &&
         accessed_by_host == other.accessed_by_host;
}

void change_advice(uintptr_t address, size_t bytes, void (*change)(Advice&, const CUmemLocation&),
                   const CUmemLocation& location) {
  AdviceMap& map = advice_map();
  const std::lock_guard lock(map.mutex);
  const auto end = map.split(round_up(address + bytes, kPageBytes));
  for (auto part = map.split(first_page(address)); part != end; ++part) {
    change(part->second, location);
  }
}

void forget_advice(uintptr_t address, size_t bytes) {
  AdviceMap& map = advice_map();
  const std::lock_guard lock(map.mutex);
  if (map.from.empty()) {
    return;
  }
  const auto end = map.split(round_up(address + bytes, kPageBytes));
  const auto begin = map.split(first_page(address));
  begin->second = {};
  map.from.erase(std::next(begin), end);
}

Advice common_advice(uintptr_t address, size_t bytes) {
  AdviceMap& map = advice_map();
  const std::lock_guard lock(map.mutex);
  const Advice nothing;
  auto part = map.from.upper_bound(address);
  Advice common = part == map.from.begin() ? nothing : std::prev(part)->second;
  for (; part != map.from.end() && part->first < address + bytes; ++part) {
    const Advice& other = part->second;
    common.read_mostly = common.read_mostly && other.read_mostly;
    common.accessed_by &= other.accessed_by;
    common.accessed_by_host = common.accessed_by_host && other.accessed_by_host;
    common.preferred =
        same(common.preferred, other.preferred) ? common.preferred : nothing.preferred;
    common.prefetched =
        same(common.prefetched, other.prefetched) ? common.prefetched : nothing.prefetched;
  }
  return common;
}

}  // namespace simgpu
