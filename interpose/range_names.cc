#include "interpose/range_names.h"

#include <string.h>

#include "interpose/tables.h"

namespace traintrace {
namespace {

constexpr uint32_t kMostRegistered = 8192;
constexpr uint32_t kMostHandles = 16384;
constexpr uint32_t kLongestWay = 64;
constexpr uint32_t kTextBytes = 512 * 1024;

// Zeroed pages that nobody touched take no memory.  A forked child has what its parent registered.
constinit Registered g_registered[kMostRegistered] = {};
constinit char g_texts[kTextBytes] = {};
constinit uint32_t g_texts_used = 0;

struct Handle {
  uint64_t handle;  // 0: free
  const Registered* registered;
};
constinit Handle g_handles[kMostHandles] = {};
constinit bool g_named_handles = false;

// Null: there is no room.
const char* keep_text(const char* text, uint32_t bytes) {
  const uint32_t at = __atomic_fetch_add(&g_texts_used, bytes, __ATOMIC_RELAXED);
  if (at > kTextBytes - bytes) {
    __atomic_store_n(&g_texts_used, kTextBytes, __ATOMIC_RELAXED);
    return nullptr;
  }
  memcpy(&g_texts[at], text, bytes);
  return &g_texts[at];
}

// Who comes second takes it as it is: not `ready` yet means a name that is not known yet.
const Registered* register_text(uint64_t key, uint64_t hash, const char* text, uint32_t bytes) {
  for (uint32_t way = 0; way < kLongestWay; ++way) {
    Registered& place = g_registered[(place_of(key, kMostRegistered) + way) % kMostRegistered];
    if (load(place.key) == 0 && exchange_if(place.key, uint64_t{0}, key)) {
      place.hash = hash;
      place.text = keep_text(text, bytes);
      place.bytes = bytes;
      publish(place.ready, place.text == nullptr ? 0U : 1U);
      return &place;
    }
    if (load(place.key) == key) {
      return &place;
    }
  }
  return nullptr;
}

// Whether `tag` and a number is what the text ends with; then `bytes` is without them.
template <size_t kSize>
bool cut_number(const char* text, size_t& bytes, const char (&tag)[kSize], uint64_t& number) {
  constexpr size_t kMostDigits = 9;
  constexpr size_t kTag = kSize - 1;
  size_t at = bytes;
  uint64_t unit = 1;
  uint64_t read = 0;
  for (; at > 0 && bytes - at < kMostDigits && text[at - 1] >= '0' && text[at - 1] <= '9'; --at) {
    read += unit * static_cast<uint64_t>(text[at - 1] - '0');
    unit *= 10;
  }
  if (at == bytes || at <= kTag || memcmp(text + at - kTag, tag, kTag) != 0 ||
      (text[at] == '0' && bytes - at > 1)) {
    return false;
  }
  bytes = at - kTag;
  number = read;
  return true;
}

uint64_t key_of_category(const Registered* domain, uint32_t category) {
  constexpr uint64_t kCategories = 0x6361'7465'676f'7279;
  const uint64_t of_domain = domain == nullptr ? kDefaultDomainHash : domain->hash;
  return format::mixed(format::mixed(kCategories, of_domain), category) | 1;
}

char* append_utf8(char* to, uint32_t code) {
  if (code < 0x80) {
    *to++ = static_cast<char>(code);
  } else if (code < 0x800) {
    *to++ = static_cast<char>(0xc0 | code >> 6);
    *to++ = static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    *to++ = static_cast<char>(0xe0 | code >> 12);
    *to++ = static_cast<char>(0x80 | (code >> 6 & 0x3f));
    *to++ = static_cast<char>(0x80 | (code & 0x3f));
  } else {
    *to++ = static_cast<char>(0xf0 | (code >> 18 & 7));
    *to++ = static_cast<char>(0x80 | (code >> 12 & 0x3f));
    *to++ = static_cast<char>(0x80 | (code >> 6 & 0x3f));
    *to++ = static_cast<char>(0x80 | (code & 0x3f));
  }
  return to;
}

}  // namespace

RangeName range_name(uint64_t domain_hash, const char* text) noexcept {
  text = text == nullptr ? "" : text;
  const size_t bytes = strnlen(text, kMostRangeName);
  return {hash_of_text(domain_hash, text, bytes), text, static_cast<uint32_t>(bytes)};
}

RangeName range_name_of_operator(uint64_t domain_hash, const char* text,
                                 uint64_t& numbers) noexcept {
  text = text == nullptr ? "" : text;
  size_t bytes = strnlen(text, kMostRangeName);
  uint64_t id = 0;
  uint64_t sequence = 0;
  numbers = 0;
  if (cut_number(text, bytes, ", op_id = ", id)) [[unlikely]] {
    numbers = id & 0xffff'ffff;
    if (cut_number(text, bytes, ", seq = ", sequence)) {
      numbers |= (sequence + 1) << 32;
    }
  }
  return {hash_of_text(domain_hash, text, bytes), text, static_cast<uint32_t>(bytes)};
}

NarrowText::NarrowText(const wchar_t* wide) noexcept {
  char* to = text;
  for (; wide != nullptr && *wide != L'\0' && to + 4 <= text + kMostRangeName; ++wide) {
    to = append_utf8(to, static_cast<uint32_t>(*wide));
  }
  *to = '\0';
}

const Registered* register_domain(const char* name) noexcept {
  constexpr uint64_t kDomains = 0x646f'6d61'696e;
  const RangeName named = range_name(kDomains, name);
  return register_text(named.hash, named.hash, named.text, named.bytes);
}

const Registered* register_string(const Registered* domain, const char* text) noexcept {
  constexpr uint64_t kStrings = 0x7374'7269'6e67;
  const RangeName name = range_name(domain == nullptr ? kDefaultDomainHash : domain->hash, text);
  return register_text(format::mixed(kStrings, name.hash) | 1, name.hash, name.text, name.bytes);
}

void register_category(const Registered* domain, uint32_t category, const char* text) noexcept {
  const RangeName name = range_name(kDefaultDomainHash, text);
  register_text(key_of_category(domain, category), name.hash, name.text, name.bytes);
}

const Registered* category_of(const Registered* domain, uint32_t category) noexcept {
  const uint64_t key = key_of_category(domain, category);
  for (uint32_t way = 0; way < kLongestWay; ++way) {
    const Registered& place =
        g_registered[(place_of(key, kMostRegistered) + way) % kMostRegistered];
    const uint64_t there = load(place.key);
    if (there == key || there == 0) {
      return there == 0 ? nullptr : &place;
    }
  }
  return nullptr;
}

const Registered* registered_of(const void* handle) noexcept {
  const auto* const ours = static_cast<const Registered*>(handle);
  const auto offset = reinterpret_cast<uint64_t>(handle) - reinterpret_cast<uint64_t>(g_registered);
  if (offset < sizeof g_registered) {
    return offset % sizeof *ours == 0 ? ours : nullptr;
  }
  const auto key = reinterpret_cast<uint64_t>(handle);
  if (key == 0 || !__atomic_load_n(&g_named_handles, __ATOMIC_RELAXED)) {
    return nullptr;
  }
  for (uint32_t way = 0; way < kLongestWay; ++way) {
    const Handle& place = g_handles[(place_of(key, kMostHandles) + way) % kMostHandles];
    const uint64_t there = load(place.handle);
    if (there == key || there == 0) {
      return there == 0 ? nullptr : load(place.registered);
    }
  }
  return nullptr;
}

void name_handle(const void* handle, const Registered* registered) noexcept {
  const auto key = reinterpret_cast<uint64_t>(handle);
  __atomic_store_n(&g_named_handles, true, __ATOMIC_RELAXED);
  for (uint32_t way = 0; key != 0 && way < kLongestWay; ++way) {
    Handle& place = g_handles[(place_of(key, kMostHandles) + way) % kMostHandles];
    if ((load(place.handle) == 0 && exchange_if(place.handle, uint64_t{0}, key)) ||
        load(place.handle) == key) {
      publish(place.registered, registered);
      return;
    }
  }
}

uint32_t number_of(const Registered* domain) noexcept {
  return domain == nullptr ? 0 : static_cast<uint32_t>(domain - g_registered) + 1;
}

}  // namespace traintrace
