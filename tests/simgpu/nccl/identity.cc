#include "nccl/identity.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace simgpu::nccl {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdULL;
  return hash ^ (hash >> 33);
}

}  // namespace

uint64_t hash_of(const ncclUniqueId& id) {
  uint64_t hash = 0xdeadbeef;
  for (const char byte : id.internal) {
    hash ^= hash >> 32;
    hash *= 0x8db3db47fa2994adULL;
    hash += static_cast<uint64_t>(static_cast<int64_t>(byte));
  }
  return hash;
}

uint64_t child_hash(uint64_t parent, uint64_t tag, const uint64_t* values, int value_count) {
  uint64_t hash = mix(parent, tag);
  for (int i = 0; i < value_count; ++i) {
    hash = mix(hash, values[i]);
  }
  return hash;
}

ncclUniqueId new_unique_id() {
  ncclUniqueId id{};
  // With NCCL_COMM_ID all processes make the same id and nobody has to hand it round.
  if (const char* shared = getenv("NCCL_COMM_ID"); shared && *shared) {
    strncpy(id.internal, shared, sizeof id.internal - 1);
    return id;
  }
  uint64_t random[2];
  if (getrandom(random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) {
    random[0] = static_cast<uint64_t>(getpid());
    random[1] = reinterpret_cast<uint64_t>(&id);
  }
  memcpy(id.internal, random, sizeof random);
  return id;
}

}  // namespace simgpu::nccl
