// Values by address, sorted, many to an allocation: of small ones a std::map would be mostly nodes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace traintrace {

template <class T>
class AddressMap {
 public:
  struct Item {
    uint64_t address = 0;
    T value{};
  };

  // The first at that address or behind it, the last before it; null: there is none.  Until the
  // next change.
  const Item* at_or_behind(uint64_t address) const {
    auto chunk = chunk_of(address);
    if (chunk == chunks_.end()) {
      return nullptr;
    }
    auto item = place_in(chunk->second, address);
    if (item == chunk->second.end()) {
      ++chunk;
      return chunk == chunks_.end() ? nullptr : &chunk->second.front();
    }
    return &*item;
  }
  const Item* before(uint64_t address) const {
    const auto chunk = chunk_of(address);
    if (chunk == chunks_.end()) {
      return nullptr;
    }
    const auto item = place_in(chunk->second, address);
    if (item != chunk->second.begin()) {
      return &*std::prev(item);
    }
    return chunk == chunks_.begin() ? nullptr : &std::prev(chunk)->second.back();
  }

  // False: there is one already.
  bool insert(uint64_t address, const T& value) {
    auto chunk = as_mutable(chunk_of(address));
    if (chunk == chunks_.end()) {
      chunks_[address].push_back({address, value});
      return true;
    }
    if (address < chunk->first) {  // of all
      auto node = chunks_.extract(chunk);
      node.key() = address;
      chunk = chunks_.insert(std::move(node)).position;
    }
    Chunk& items = chunk->second;
    const auto place = place_in(items, address);
    if (place != items.end() && place->address == address) {
      return false;
    }
    items.insert(place, {address, value});
    if (items.size() > kMostItems) {
      const auto half = items.begin() + kMostItems / 2;
      Chunk upper(half, items.end());
      Chunk lower(items.begin(), half);
      items = std::move(lower);
      chunks_.emplace(upper.front().address, std::move(upper));
    }
    return true;
  }

  void erase(uint64_t address) {
    const auto chunk = as_mutable(chunk_of(address));
    if (chunk == chunks_.end()) {
      return;
    }
    const auto place = place_in(chunk->second, address);
    if (place != chunk->second.end() && place->address == address) {
      chunk->second.erase(place);
    }
    if (chunk->second.empty()) {
      chunks_.erase(chunk);
    }
  }

 private:
  static constexpr size_t kMostItems = 64;
  using Chunk = std::vector<Item>;           // never empty
  using Chunks = std::map<uint64_t, Chunk>;  // by an address that all in it have or are behind

  typename Chunks::const_iterator chunk_of(uint64_t address) const {
    const auto behind = chunks_.upper_bound(address);
    return behind == chunks_.begin() ? behind : std::prev(behind);
  }
  typename Chunks::iterator as_mutable(typename Chunks::const_iterator chunk) {
    return chunks_.erase(chunk, chunk);
  }
  template <class Items>
  static auto place_in(Items& items, uint64_t address) {
    return std::lower_bound(items.begin(), items.end(), address,
                            [](const Item& item, uint64_t at) { return item.address < at; });
  }

  Chunks chunks_;
};

}  // namespace traintrace
