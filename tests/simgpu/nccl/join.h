// How a rank enters a communicator.
#pragma once
#include "nccl/group.h"

namespace simgpu::nccl {

// Appends the phases after which all ranks of comm.hash have met.
void add_join_phases(Job& job);

// What Job::finish does for a new communicator: a blocking one that could not be made is dissolved.
std::function<void(ncclResult_t)> finish_creation(Communicator* comm, ncclComm_t* handle,
                                                  const char* call);

}  // namespace simgpu::nccl
