// NCCL set-up of a process that holds one rank.
#pragma once
#include <nccl.h>

#include <string>

#include "check_nccl.h"
#include "ranks.h"

// Rank `root` makes an id, all others of the world read it.  A name is used once.
inline ncclUniqueId shared_unique_id(const std::string& name = "unique_id", int root = 0) {
  ncclUniqueId id;
  if (world_rank() == root) {
    NCCL_CHECK(ncclGetUniqueId(&id));
    if (world_size() > 1) {
      publish(name, &id, sizeof id);
    }
  } else {
    fetch(name, &id, sizeof id);
  }
  return id;
}

inline ncclComm_t world_communicator() {
  ncclComm_t comm = nullptr;
  NCCL_CHECK(ncclCommInitRank(&comm, world_size(), shared_unique_id(), world_rank()));
  return comm;
}

inline void finish(ncclComm_t comm) {
  NCCL_CHECK(ncclCommFinalize(comm));
  NCCL_CHECK(ncclCommDestroy(comm));
}
