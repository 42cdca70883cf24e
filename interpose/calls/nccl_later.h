// Functions of NCCL 2.29 that nccl.h of an older one lacks, as its public documentation has them
// (user guide, API: communicators, point to point).  A library without them is never asked for
// them: whoever calls them was linked with one that has them.
#pragma once

#include <nccl.h>

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 29, 0)
// NOLINTBEGIN(readability-identifier-naming): NCCL's names
extern "C" {
// Of the communicator that is to grow, for the ranks that join it.
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId);
// Ranks of `comm` give it and rank -1; `uniqueId` is known to one of them at least, to all that
// join, and serves once.  Those that join give no `comm` and their rank.
ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                          ncclComm_t* newcomm, ncclConfig_t* config);
// 2.29.7.  Both meet all ranks of the communicator.
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t ncclCommResume(ncclComm_t comm);
// Their second names.
ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId);
ncclResult_t pncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                           ncclComm_t* newcomm, ncclConfig_t* config);
ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t pncclCommResume(ncclComm_t comm);
}
// NOLINTEND(readability-identifier-naming)
#endif
