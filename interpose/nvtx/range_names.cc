#include "interpose/nvtx/range_names.h"

#include <stddef.h>
#include <string.h>

#include "interpose/tables/tables.h"

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

// A text, read from its front.
struct Rest {
  const char* at;
  const char* end;
};

template <size_t kSize>
bool skip(Rest& rest, const char (&tag)[kSize]) {
  constexpr size_t kTag = kSize - 1;
  const bool found =
      static_cast<size_t>(rest.end - rest.at) >= kTag && memcmp(rest.at, tag, kTag) == 0;
  rest.at += found ? kTag : 0;
  return found;
}

// Whether `tag` and a number come next; then they are behind.
template <size_t kSize>
bool skip_number(Rest& rest, const char (&tag)[kSize], uint64_t& number) {
  constexpr int kMostDigits = 19;
  Rest after = rest;
  if (!skip(after, tag)) {
    return false;
  }
  const char* const digits = after.at;
  uint64_t read = 0;
  for (; after.at < after.end && *after.at >= '0' && *after.at <= '9'; ++after.at) {
    read = 10 * read + static_cast<uint64_t>(*after.at - '0');
  }
  const auto count = after.at - digits;
  if (count == 0 || count > kMostDigits || (count > 1 && *digits == '0')) {
    return false;
  }
  number = read;
  rest = after;
  return true;
}

const char* find(const Rest& rest, const char* tag) {
  const void* const found =
      memmem(rest.at, static_cast<size_t>(rest.end - rest.at), tag, strlen(tag));
  return static_cast<const char*>(found);
}

// What emit_nvtx put after the name of an operator.
struct OperatorTail {
  uint64_t numbers;
  Rest sizes;  // ", sizes = [..]", or nothing
};

// As PyTorch calls its own: up to 1.8 emit_nvtx gave them a sequence number alone, as a job may
// give one to a range of its own.
bool is_of_pytorch(Rest name) {
  return skip(name, "aten::") || skip(name, "autograd::");
}

bool read_tail(Rest name, Rest rest, OperatorTail& tail) {
  uint64_t sequence = 0;
  uint64_t id = 0;
  const bool has_sequence = skip_number(rest, ", seq = ", sequence);
  const bool has_id = skip_number(rest, ", op_id = ", id);
  if (!has_id && !(has_sequence && is_of_pytorch(name))) {
    return false;
  }
  tail.numbers = (has_sequence ? (sequence + 1) << 32 : 0) | (id & 0xffff'ffff);
  tail.sizes = {rest.at, rest.at};
  Rest after = rest;
  if (skip(after, ", sizes = [")) {
    const char* const inputs = find(after, ", input_op_ids = [");
    tail.sizes.end = rest.at = inputs != nullptr ? inputs : rest.end;
  }
  return rest.at == rest.end || skip(rest, ", input_op_ids = [");
}

// Where `tag` and a number begin that end before `end`; null: they do not.
template <size_t kSize>
const char* number_before(const char* text, const char* end, const char (&tag)[kSize]) {
  constexpr ptrdiff_t kTag = kSize - 1;
  const char* at = end;
  while (at > text && at[-1] >= '0' && at[-1] <= '9') {
    --at;
  }
  return at != end && at - text > kTag && memcmp(at - kTag, tag, kTag) == 0 ? at - kTag : nullptr;
}

// Where the tail of an operator's name begins; null: it has none.  Most names do not end as these
// do, and of those nothing more is read.
const char* tail_of(const char* text, size_t bytes) {
  const char* const end = text + bytes;
  const char last = bytes == 0 ? '\0' : end[-1];
  if (last == ']' || bytes == kMostRangeName) [[unlikely]] {  // or cut
    const char* const sequence = find({text, end}, ", seq = ");
    return sequence != nullptr ? sequence : find({text, end}, ", op_id = ");
  }
  if (last < '0' || last > '9') [[likely]] {
    return nullptr;
  }
  const char* const id = number_before(text, end, ", op_id = ");
  const char* const sequence = number_before(text, id != nullptr ? id : end, ", seq = ");
  return sequence != nullptr ? sequence : id;
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

RangeName range_name_of_operator(uint64_t domain_hash, const char* text, uint64_t& numbers,
                                 OperatorName& room) noexcept {
  text = text == nullptr ? "" : text;
  size_t bytes = strnlen(text, kMostRangeName);
  numbers = 0;
  if (const char* const name_end = tail_of(text, bytes)) [[unlikely]] {
    OperatorTail tail = {};
    if (read_tail({text, name_end}, {name_end, text + bytes}, tail)) {
      numbers = tail.numbers;
      bytes = static_cast<size_t>(name_end - text);
      if (tail.sizes.at != tail.sizes.end) {
        const auto size_bytes = static_cast<size_t>(tail.sizes.end - tail.sizes.at);
        memcpy(room, text, bytes);
        memcpy(room + bytes, tail.sizes.at, size_bytes);
        bytes += size_bytes;
        text = room;
      }
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
