// What ranges of NVTX are called, before and without a trace: texts by hash, and the strings and
// domains that the job registered.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/hashes.h"

namespace traintrace {

// Longer ones are cut.
inline constexpr size_t kMostRangeName = 512;

// A name within a domain.  `text` is the job's, and read only while it is new.
struct RangeName {
  uint64_t hash;  // of both; not 0
  const char* text;
  uint32_t bytes;
};

// A registered string or domain.  Never given back, since a job that destroys a domain may have
// ranges open in it.
struct Registered {
  uint64_t key;   // hash of what it is; 0: this place is free.  Stored first
  uint64_t hash;  // of a string: RangeName::hash; of a domain: what hashes of its names begin with
  const char* text;
  uint32_t bytes;
  uint32_t ready;  // 1: all that is there.  Stored last
};

// What hashes of names in the default domain begin with.
inline constexpr uint64_t kDefaultDomainHash = 0x6e76'7478'2d76'3321;

inline uint64_t hash_of_text(uint64_t hash, const char* text, size_t bytes) noexcept {
  hash = format::mixed(hash, bytes);
  for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), text += sizeof(uint64_t)) {
    uint64_t word = 0;
    __builtin_memcpy(&word, text, sizeof word);
    hash = format::mixed(hash, word);
  }
  uint64_t rest = 0;
  for (size_t i = 0; i < bytes; ++i) {
    rest |= uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
  }
  return format::mixed(hash, rest) | 1;
}

// Null text: an empty name.
RangeName range_name(uint64_t domain_hash, const char* text) noexcept;

// PyTorch's emit_nvtx numbers its operators, and with record_shapes=True adds what they work on:
//   aten::mm, seq = 7, op_id = 12, sizes = [[4, 8], [8, 2]], input_op_ids = [(9,0), (11,0)]
// Each would be a name of its own.  The name is `aten::mm`, or `aten::mm, sizes = [[4, 8], [8,
// 2]]`, which `room` holds.  `numbers`: op_id in the lower 32 bits and seq, if there is one, plus 1
// in the upper; 0: it is no such name, and stays whole.
using OperatorName = char[kMostRangeName];
RangeName range_name_of_operator(uint64_t domain_hash, const char* text, uint64_t& numbers,
                                 OperatorName& room) noexcept;

// A wide text as UTF-8.
struct NarrowText {
  explicit NarrowText(const wchar_t* wide) noexcept;
  char text[kMostRangeName + 1];
};

// Null: there is no room.  The same text gives the same again.
const Registered* register_domain(const char* name) noexcept;
const Registered* register_string(const Registered* domain, const char* text) noexcept;

// What the job calls a category of a domain; the first name stays.
void register_category(const Registered* domain, uint32_t category, const char* text) noexcept;
// Null: it has no name.
const Registered* category_of(const Registered* domain, uint32_t category) noexcept;

// What a handle that NVTX has from us, or from the injection library that we go on to, stands for;
// null: nothing of ours.
const Registered* registered_of(const void* handle) noexcept;
// That the other library called it so.
void name_handle(const void* handle, const Registered* registered) noexcept;

// 0 is the default domain.
uint32_t number_of(const Registered* domain) noexcept;

}  // namespace traintrace
