// The hashes that a trace carries, so that ranks can be compared without reading their events.
// docs/format.md says the same in words.
#pragma once

#include <cstddef>
#include <cstdint>

namespace traintrace::format {

// NCCL's own hash (src/include/bitops.h: eatHash, digestHash), with which 2.28 makes the commHash
// of its logs and of RAS.
class NcclHash {
 public:
  constexpr void eat(uint64_t value, unsigned bytes) {
    low_ ^= bytes;
    take(value);
  }
  void eat(const void* data, size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(data);
    low_ ^= bytes;
    while (bytes != 0) {
      const size_t chunk = bytes < 8 ? bytes : 8;
      uint64_t value = 0;
      __builtin_memcpy(&value, at, chunk);
      take(value);
      at += chunk;
      bytes -= chunk;
    }
  }
  constexpr uint64_t digest() const {
    uint64_t hash = low_;
    hash ^= hash >> 31;
    hash *= 0xbac3bd562846de6bULL;
    hash += high_;
    hash ^= hash >> 32;
    hash *= 0x995a187a14e7b445ULL;
    return hash;
  }

 private:
  constexpr void take(uint64_t value) {
    low_ += high_;
    high_ ^= low_;
    low_ ^= low_ >> 31;
    low_ *= 0x9de62bbc8cef3ce3ULL;
    high_ ^= high_ >> 32;
    high_ *= 0x485cd6311b599e79ULL;
    low_ += value;
  }
  uint64_t low_ = 1;
  uint64_t high_ = 1;
};

// Of a split (ordinal from 1) and, with ordinal and color 0, of a shrink.
constexpr uint64_t nccl_child_hash(uint64_t parent, int32_t ordinal, int32_t color) {
  NcclHash hash;
  hash.eat(parent, 8);
  hash.eat(static_cast<uint32_t>(ordinal), 4);
  hash.eat(static_cast<uint32_t>(color), 4);
  return hash.digest();
}

// Of a shrink, and of a communicator that grew: `of_ranks` says whom the first leaves out and how
// many the second has; `ordinal` counts equal ones of a parent from 1.
constexpr uint64_t child_id(uint64_t parent, uint64_t of_ranks, uint64_t ordinal) {
  NcclHash hash;
  hash.eat(parent, 8);
  hash.eat(of_ranks, 8);
  hash.eat(ordinal, 8);
  return hash.digest();
}

// FNV-1a of a call's name, as calls have other numbers in each trace.  What NCCL treats as one
// function has one name here.
constexpr uint64_t call_name_hash(const char* name) {
  if (name[0] == 'p' && name[1] == 'n') {  // pnccl..
    ++name;
  }
  constexpr char kBcast[] = "ncclBcast";
  const char* same = name;
  const char* bcast = kBcast;
  while (*same != '\0' && *same == *bcast) {
    ++same;
    ++bcast;
  }
  if (*same == '\0' && *bcast == '\0') {
    name = "ncclBroadcast";
  }
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (; *name != '\0'; ++name) {
    hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001b3ULL;
  }
  return hash;
}

constexpr uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9fb21c651e98df25ULL;
  return hash ^ (hash >> 29);
}

// After one more collective; starts at 0.  Absent arguments are -1, user-made reductions 5.
constexpr uint64_t rolling_hash(uint64_t hash, uint64_t name_hash, uint64_t count,
                                int32_t data_type, int32_t reduction, int32_t root) {
  const uint64_t arguments = static_cast<uint64_t>(static_cast<uint8_t>(data_type)) |
                             static_cast<uint64_t>(static_cast<uint8_t>(reduction)) << 8 |
                             static_cast<uint64_t>(static_cast<uint32_t>(root)) << 32;
  return mixed(mixed(mixed(hash, name_hash), count), arguments);
}

// After one more send or receive of a pair: the same at both ends.
constexpr uint64_t rolling_peer_hash(uint64_t hash, uint64_t count, int32_t data_type) {
  return mixed(mixed(hash, count), static_cast<uint8_t>(data_type));
}

}  // namespace traintrace::format
