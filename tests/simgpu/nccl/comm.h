// A communicator as one rank holds it.
//
// Communicators are never deleted: a kernel, a graph or a careless caller may still hold the
// pointer after Destroy or Abort, and gets a clean answer.  Their memory and connections are
// released.
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "nccl/bell.h"
#include "nccl/plan.h"
#include "nccl/segment.h"

namespace simgpu::nccl {

struct Config {
  bool blocking = true;
  bool split_share = false;
  bool shrink_share = false;
  std::string name;
};

// Checks magic, size, version and values as NCCL does.  `parent` gives what the caller left
// undefined.
ncclResult_t parse_config(const ncclConfig_t* given, const Config* parent, Config& out);

inline constexpr uint64_t kLive = 0x0280c0b3'0280c0b3ULL;

// A reduction made by ncclRedOpCreatePreMulSum; freed entries are used again.
struct UserReduction {
  bool live = false;
  ncclDataType_t type = ncclInt8;
  Reduction reduction;
};

// Which queues this rank may use: asked for by it and by all others that have to.
struct Connections {
  bool ring = false;
  bool tree = false;
  std::vector<bool> send;
  std::vector<bool> receive;
};

}  // namespace simgpu::nccl

struct ncclComm {
  std::atomic<uint64_t> magic{simgpu::nccl::kLive};
  int rank = 0;
  int rank_count = 0;
  int device = 0;
  int serial = 0;     // of communicators in this process
  uint64_t hash = 0;  // equal on all ranks, the key of the shared memory
  simgpu::nccl::Config config;
  void* profiler = nullptr;  // the plugin's context, null: it does not follow
  std::shared_ptr<simgpu::nccl::Segment> segment;

  std::atomic<ncclResult_t> state{ncclSuccess};  // what ncclCommGetAsyncError says
  std::atomic<bool> aborted{false};
  std::atomic<bool> revoked{false};
  std::atomic<bool> finalized{false};
  std::atomic<uint32_t> epoch{0};  // changes when everything under way shall stop
  std::atomic<int> busy{0};        // groups that are connecting or launching for it
  simgpu::nccl::Bell local_bell;   // rung when `state`, `running`, `busy` or `epoch` changes

  // Used by the one thread that prepares a group with this communicator.
  simgpu::nccl::Connections connections;
  uint32_t splits = 0;
  uint32_t shrinks = 0;
  uint32_t growths = 0;
  uint32_t changes = 0;
  bool suspended = false;
  uint32_t windows = 0;
  cudaEvent_t last_event = nullptr;     // after the last kernel that was launched
  unsigned long long last_stream = 0;   // its id: a handle may be used again
  cudaEvent_t capture_event = nullptr;  // the same inside the capture `capture_id`
  cudaStream_t capture_stream = nullptr;
  unsigned long long capture_id = 0;

  std::mutex mutex;  // the members below
  std::vector<simgpu::nccl::UserReduction> reductions;
  std::set<void*> registrations;
  std::list<std::unique_ptr<simgpu::nccl::Plan>> plans;
  std::vector<void*> buffers;                     // device memory
  std::shared_ptr<std::atomic<bool>> group_stop;  // ends the waits of the group that is `busy`

  // Used by the kernel that holds `running`.
  std::atomic<bool> running{false};
  uint64_t collective_sequence = 0;
  std::vector<uint64_t> send_sequence;
  std::vector<uint64_t> receive_sequence;

  int next() const { return (rank + 1) % rank_count; }
  int previous() const { return (rank + rank_count - 1) % rank_count; }
  simgpu::nccl::RankCell& cell() const { return segment->cell(rank); }
};

namespace simgpu::nccl {

using Communicator = ::ncclComm;

// Registered for ever, see above.
Communicator* new_communicator(int device, const Config& config);
// Says which rank of which communicator it is; before anything else is done with it.
void set_place(Communicator& comm, uint64_t hash, int rank, int rank_count);

// SIMGPU_NCCL_BUFFERS=N: N bytes of its device when it is made, and with each first connection.
void take_buffer(Communicator& comm);

// ncclInvalidArgument for NULL and for what is no communicator (any more).
ncclResult_t check_comm(const Communicator* comm, const char* call);
ncclResult_t check_pointer(const void* pointer, const char* call, const char* what);
// The same, and the communicator has finished what it was doing.
ncclResult_t check_ready(Communicator* comm, const char* call);

void set_state(Communicator& comm, ncclResult_t state);

// Stops all that is under way on this rank: kernels and calls that wait.
void stop_everything(Communicator& comm);
// Waits until no kernel of the communicator runs, and with `groups` no group works for it either.
void wait_idle(Communicator& comm, bool groups);
// Waits until all kernels that were launched have ended.
ncclResult_t wait_launched(Communicator& comm);
// Releases everything and makes the handle invalid.
void release(Communicator& comm);

}  // namespace simgpu::nccl
