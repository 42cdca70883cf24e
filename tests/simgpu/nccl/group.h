// ncclGroupStart/End: what a thread asked for since the outermost start, and how it is carried out.
//
// A call outside a group is a group of one.  The work of a group is done in steps over all its
// communicators, so that one thread can drive several ranks that wait for each other.
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "nccl/comm.h"
#include "nccl/plan.h"

namespace simgpu::nccl {

using Stop = std::atomic<bool>;

// Creation or end of a communicator, or another call that ranks make together: phases that are run
// one after the other over all jobs of a group.  A phase may wait only for what the earlier phases
// of all ranks' jobs do.
struct Job {
  Communicator* comm;
  Communicator* parent;  // also busy with it; may be nullptr
  std::vector<std::function<ncclResult_t(const Stop&)>> phases;
  std::function<void(ncclResult_t)> finish;  // called once, with the result; may be empty
};

// The operations of one communicator in a group.
struct Pending {
  Communicator* comm;
  std::vector<Operation> collectives;
  std::vector<Operation> transfers;
  std::vector<cudaStream_t> streams;  // each once, the kernel runs on the first
};

void group_start();
// Ends the innermost group; carries out the work if it was the outermost.
ncclResult_t group_end();
// Says that a call failed inside the open group: the whole group then does nothing.
ncclResult_t group_fail(ncclResult_t error);
// Drops the work of the open group and returns its estimated time; see ncclGroupSimulateEnd.
ncclResult_t group_simulate(float& estimated_us);

// Both need an open group.
void group_add(Communicator& comm, const Operation& operation, cudaStream_t stream);
void group_add(Job job);
// Runs the job as a group of its own, or as a part of the group that is open.
ncclResult_t run_job(Job job);

// connect.cc: chooses algorithms and the order of the collectives; finds sends to oneself that
// nobody receives.
ncclResult_t prepare(Pending& pending);
bool needs_connection(const Pending& pending);
// Asks for all connections that are missing, of all communicators, then waits for the other ranks.
ncclResult_t connect(std::vector<Pending>& work, const Stop& stop);

// launch.cc: puts one kernel on the first stream.
ncclResult_t launch(Pending& pending);

}  // namespace simgpu::nccl
