#include "nccl/group.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "nccl/debug.h"

namespace simgpu::nccl {
namespace {

struct Work {
  std::vector<Job> jobs;
  std::vector<Pending> operations;
};

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  Work work;
};

thread_local Group t_group;

std::vector<Communicator*> communicators(const Work& work) {
  std::vector<Communicator*> all;
  for (const Job& job : work.jobs) {
    all.push_back(job.comm);
    if (job.parent) {
      all.push_back(job.parent);
    }
  }
  for (const Pending& pending : work.operations) {
    all.push_back(pending.comm);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

void finish(Job& job, ncclResult_t result) {
  job.phases.clear();
  if (job.finish) {
    job.finish(result);
  }
}

ncclResult_t run_jobs(std::vector<Job>& jobs, const Stop& stop) {
  std::vector<ncclResult_t> results(jobs.size(), ncclSuccess);
  size_t phases = 0;
  for (const Job& job : jobs) {
    phases = std::max(phases, job.phases.size());
  }
  for (size_t phase = 0; phase < phases; ++phase) {
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (results[i] == ncclSuccess && phase < jobs[i].phases.size()) {
        results[i] = jobs[i].phases[phase](stop);
      }
    }
  }
  ncclResult_t first = ncclSuccess;
  for (size_t i = 0; i < jobs.size(); ++i) {
    first = first == ncclSuccess ? results[i] : first;
    finish(jobs[i], results[i]);
  }
  return first;
}

ncclResult_t run_operations(std::vector<Pending>& operations, const Stop& stop) {
  // An abort that found the communicator busy waits for this; one that did not has released it.
  const bool aborted =
      std::any_of(operations.begin(), operations.end(),
                  [](const Pending& pending) { return pending.comm->aborted.load(); });
  ncclResult_t result = aborted ? ncclInvalidArgument : connect(operations, stop);
  for (size_t i = 0; i < operations.size() && result == ncclSuccess; ++i) {
    if (cudaSetDevice(operations[i].comm->device) != cudaSuccess) {
      return ncclUnhandledCudaError;
    }
    result = launch(operations[i]);
  }
  return result;
}

ncclResult_t run(Work& work, const Stop& stop) {
  int device = -1;
  cudaGetDevice(&device);
  ncclResult_t result = run_jobs(work.jobs, stop);
  if (result == ncclSuccess && !work.operations.empty()) {
    result = run_operations(work.operations, stop);
  }
  if (device >= 0) {
    cudaSetDevice(device);
  }
  return result;
}

// While it lives the communicators are busy, and stopping one of them stops the group.
class Busy {
 public:
  explicit Busy(const Work& work)
      : stop_(std::make_shared<Stop>(false)), communicators_(communicators(work)) {
    for (Communicator* comm : communicators_) {
      const std::lock_guard lock(comm->mutex);
      comm->busy.fetch_add(1);
      comm->group_stop = stop_;
    }
  }
  ~Busy() {
    for (Communicator* comm : communicators_) {
      {
        const std::lock_guard lock(comm->mutex);
        if (comm->group_stop == stop_) {
          comm->group_stop.reset();
        }
      }
      comm->busy.fetch_sub(1);
      comm->local_bell.ring();
    }
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

  const Stop& stop() const { return *stop_; }

 private:
  const std::shared_ptr<Stop> stop_;
  const std::vector<Communicator*> communicators_;
};

ncclResult_t run_in_background(Work work) {
  auto busy = std::make_unique<Busy>(work);
  const std::vector<Communicator*> all = communicators(work);
  for (Communicator* comm : all) {
    set_state(*comm, ncclInProgress);
  }
  std::thread([work = std::move(work), busy = std::move(busy), all]() mutable {
    const ncclResult_t result = run(work, busy->stop());
    for (Communicator* comm : all) {
      ncclResult_t expected = ncclInProgress;
      comm->state.compare_exchange_strong(expected, result);
    }
    busy.reset();
  }).detach();
  return ncclInProgress;
}

// Fails the jobs and forgets the operations of a group in which a call failed.
ncclResult_t discard(Work& work, ncclResult_t error) {
  for (Job& job : work.jobs) {
    if (job.finish && !job.comm->config.blocking) {
      set_state(*job.comm, error);
    }
    finish(job, error);
  }
  return error;
}

ncclResult_t prepare_all(Work& work, bool& background) {
  bool blocking = false;
  bool waits = !work.jobs.empty();
  for (Pending& pending : work.operations) {
    // It may have been aborted since the call.
    ncclResult_t result = check_comm(pending.comm, "ncclGroupEnd");
    result = result == ncclSuccess ? prepare(pending) : result;
    if (result != ncclSuccess) {
      return result;
    }
    waits |= needs_connection(pending);
  }
  background = false;
  for (const Communicator* comm : communicators(work)) {
    (comm->config.blocking ? blocking : background) = true;
  }
  if (blocking && background) {
    warn("blocking and non-blocking communicators are not allowed in the same group");
    return ncclInvalidArgument;
  }
  background = background && waits;
  return ncclSuccess;
}

ncclResult_t carry_out(Work work) {
  bool background = false;
  if (const ncclResult_t result = prepare_all(work, background); result != ncclSuccess) {
    return discard(work, result);
  }
  if (background) {
    return run_in_background(std::move(work));
  }
  const Busy busy(work);
  return run(work, busy.stop());
}

}  // namespace

void group_start() {
  ++t_group.depth;
}

ncclResult_t group_end() {
  if (t_group.depth == 0) {
    warn("ncclGroupEnd: not in a group call");
    return ncclInvalidUsage;
  }
  if (--t_group.depth > 0) {
    return ncclSuccess;
  }
  Group group = std::exchange(t_group, Group{});
  if (group.error != ncclSuccess) {
    return discard(group.work, group.error);
  }
  if (group.work.jobs.empty() && group.work.operations.empty()) {
    return ncclSuccess;
  }
  return carry_out(std::move(group.work));
}

ncclResult_t group_fail(ncclResult_t error) {
  if (t_group.depth > 0 && error != ncclSuccess && error != ncclInProgress) {
    t_group.error = error;
  }
  return error;
}

ncclResult_t group_simulate(float& estimated_us) {
  if (t_group.depth == 0) {
    warn("ncclGroupSimulateEnd: not in a group call");
    return ncclInvalidUsage;
  }
  // Roughly a kernel's start and 100 GB/s; nobody shall build on the figure.
  constexpr float kStartUs = 10.0F;
  constexpr float kBytesPerUs = 100e3F;
  estimated_us = 0;
  for (const Pending& pending : t_group.work.operations) {
    estimated_us += kStartUs;
    for (const auto* list : {&pending.collectives, &pending.transfers}) {
      for (const Operation& operation : *list) {
        const size_t bytes = operation.count * type_bytes(operation.type);
        estimated_us += static_cast<float>(bytes) / kBytesPerUs;
      }
    }
  }
  if (--t_group.depth > 0) {
    return ncclSuccess;
  }
  Group group = std::exchange(t_group, Group{});
  discard(group.work, ncclInvalidUsage);
  return group.error;
}

void group_add(Communicator& comm, const Operation& operation, cudaStream_t stream) {
  auto& all = t_group.work.operations;
  auto found = std::find_if(all.begin(), all.end(),
                            [&](const Pending& pending) { return pending.comm == &comm; });
  if (found == all.end()) {
    found = all.insert(all.end(), Pending{&comm, {}, {}, {}});
  }
  (is_transfer(operation.function) ? found->transfers : found->collectives).push_back(operation);
  if (std::find(found->streams.begin(), found->streams.end(), stream) == found->streams.end()) {
    found->streams.push_back(stream);
  }
}

void group_add(Job job) {
  t_group.work.jobs.push_back(std::move(job));
}

ncclResult_t run_job(Job job) {
  group_start();
  group_add(std::move(job));
  return group_end();
}

}  // namespace simgpu::nccl
