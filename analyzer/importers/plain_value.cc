#include "analyzer/importers/plain_value.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

namespace traintrace {

std::byte* ValueArena::take(size_t bytes) {
  constexpr size_t kBlock = size_t{1} << 18;
  bytes = (bytes + 15) / 16 * 16;
  while (bytes > left_) {
    if (used_blocks_ == blocks_.size()) {
      const size_t size = std::max(bytes, kBlock);
      blocks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
    }
    next_ = blocks_[used_blocks_].bytes.get();
    left_ = blocks_[used_blocks_++].size;
  }
  std::byte* const taken = next_;
  next_ += bytes;
  left_ -= bytes;
  return taken;
}

void ValueArena::clear() {
  constexpr size_t kMostKept = 64;
  blocks_.resize(std::min(blocks_.size(), kMostKept));
  used_blocks_ = left_ = 0;
}

ValueItems* ValueArena::new_items() {
  return new (take(sizeof(ValueItems))) ValueItems();
}

void ValueArena::append(ValueItems& items, std::span<const Value> values) {
  const size_t size = items.size + values.size();
  if (size > items.capacity) {
    // Most are filled once: exactly as large as that.
    const size_t capacity = items.size == 0 ? size : std::max<size_t>(size, 2 * size_t{items.size});
    auto* const moved = reinterpret_cast<Value*>(take(capacity * sizeof(Value)));
    std::uninitialized_copy_n(items.first, items.size, moved);
    items.first = moved;
    items.capacity = static_cast<uint32_t>(capacity);
  }
  std::uninitialized_copy(values.begin(), values.end(), items.first + items.size);
  items.size = static_cast<uint32_t>(size);
}

std::string_view ValueArena::keep(std::string_view text) {
  if (text.empty()) {
    return {};
  }
  auto* const copy = reinterpret_cast<char*>(take(text.size()));
  std::memcpy(copy, text.data(), text.size());
  return {copy, text.size()};
}

}  // namespace traintrace
