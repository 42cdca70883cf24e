// How the ranks of a communicator find each other: a number that all of them derive alike.
#pragma once
#include <nccl.h>

#include <cstdint>

namespace simgpu::nccl {

// The same function as NCCL's: its logs name communicators by it.
uint64_t hash_of(const ncclUniqueId& id);

// Of a child communicator: `parent`, a tag that says what made it, and what tells it from its
// siblings.
uint64_t child_hash(uint64_t parent, uint64_t tag, const uint64_t* values, int value_count);

ncclUniqueId new_unique_id();

}  // namespace simgpu::nccl
