// Communicators made from others: split and shrink.
#include <algorithm>
#include <vector>

#include "nccl/api.h"
#include "nccl/debug.h"
#include "nccl/identity.h"
#include "nccl/join.h"

namespace simgpu::nccl {
namespace {

constexpr uint64_t kSplitTag = 1;
constexpr uint64_t kShrinkTag = 2;

struct Split {
  Communicator* parent;
  Communicator* child;  // nullptr without a color
  uint32_t ordinal;
  int color;
  int key;

  SplitCell& cell(int rank) const { return parent->segment->cell(rank).split[ordinal % 2]; }
};

ncclResult_t publish(const Split& split) {
  SplitCell& cell = split.cell(split.parent->rank);
  cell.color.store(split.color);
  cell.key.store(split.key);
  cell.ordinal.store(split.ordinal);
  split.parent->segment->ring_all();
  return ncclSuccess;
}

// Waits until every rank of the parent has said its color: also those that get no communicator.
ncclResult_t collect(const Split& split, const Stop& stop) {
  const Communicator& parent = *split.parent;
  const auto all_said = [&] {
    for (int rank = 0; rank < parent.rank_count; ++rank) {
      if (split.cell(rank).ordinal.load() != split.ordinal) {
        return false;
      }
    }
    return true;
  };
  if (!wait_on(parent.cell().bell, all_said, [&] { return stop.load(); })) {
    return ncclInternalError;
  }
  if (!split.child) {
    return ncclSuccess;
  }
  std::vector<std::pair<int, int>> members;  // key, rank of the parent
  for (int rank = 0; rank < parent.rank_count; ++rank) {
    if (split.cell(rank).color.load() == split.color) {
      members.emplace_back(split.cell(rank).key.load(), rank);
    }
  }
  std::sort(members.begin(), members.end());
  const auto self = std::find(members.begin(), members.end(), std::pair(split.key, parent.rank));
  const uint64_t values[] = {split.ordinal, static_cast<uint64_t>(split.color)};
  set_place(*split.child, child_hash(parent.hash, kSplitTag, values, 2),
            static_cast<int>(self - members.begin()), static_cast<int>(members.size()));
  return ncclSuccess;
}

Communicator* new_child(const Communicator& parent, const Config& config, ncclComm_t* handle) {
  Communicator* child = new_communicator(parent.device, config);
  set_state(*child, ncclInProgress);
  *handle = child;
  return child;
}

ncclResult_t split(Communicator& parent, int color, int key, ncclComm_t* handle,
                   const Config& config) {
  Split split{&parent, nullptr, ++parent.splits, color, key};
  *handle = nullptr;
  Job job{&parent, nullptr, {}, {}};
  if (color != NCCL_SPLIT_NOCOLOR) {
    split.child = new_child(parent, config, handle);
    job = Job{split.child, &parent, {}, finish_creation(split.child, handle, "ncclCommSplit")};
  }
  job.phases.emplace_back([split](const Stop&) { return publish(split); });
  job.phases.emplace_back([split](const Stop& stop) { return collect(split, stop); });
  if (split.child) {
    add_join_phases(job);
  }
  return run_job(std::move(job));
}

ncclResult_t check_excluded(const Communicator& comm, const std::vector<int>& excluded) {
  for (size_t i = 0; i < excluded.size(); ++i) {
    const int rank = excluded[i];
    const bool twice = i > 0 && excluded[i - 1] == rank;
    if (rank < 0 || rank >= comm.rank_count || rank == comm.rank || twice) {
      warn("ncclCommShrink : cannot exclude rank %d", rank);
      return ncclInvalidArgument;
    }
  }
  return ncclSuccess;
}

// Only the ranks that stay call it and all hold the same list, so nothing needs to be exchanged.
ncclResult_t shrink(Communicator& parent, const std::vector<int>& excluded, ncclComm_t* handle,
                    const Config& config, bool abort) {
  std::vector<uint64_t> values(excluded.begin(), excluded.end());
  values.push_back(++parent.shrinks);
  const uint64_t hash =
      child_hash(parent.hash, kShrinkTag, values.data(), static_cast<int>(values.size()));
  const auto gone = static_cast<int>(excluded.size());
  const auto before = std::lower_bound(excluded.begin(), excluded.end(), parent.rank);
  const int rank = parent.rank - static_cast<int>(before - excluded.begin());
  if (abort) {
    stop_everything(parent);
    wait_idle(parent, false);
  }
  Communicator* child = new_child(parent, config, handle);
  set_place(*child, hash, rank, parent.rank_count - gone);
  Job job{child, &parent, {}, finish_creation(child, handle, "ncclCommShrink")};
  add_join_phases(job);
  return run_job(std::move(job));
}

}  // namespace
}  // namespace simgpu::nccl

using namespace simgpu::nccl;

SIMGPU_NCCL_EXPORT(ncclCommSplit);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
  SIMGPU_ENTER(ncclResult_t);
  Config merged;
  ncclResult_t result = check_ready(comm, "ncclCommSplit");
  result = result == ncclSuccess ? check_pointer(newcomm, "ncclCommSplit", "newcomm") : result;
  if (result == ncclSuccess && color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    warn("Invalid color %d, should be NCCL_SPLIT_NOCOLOR or non-negative", color);
    result = ncclInvalidArgument;
  }
  result = result == ncclSuccess ? parse_config(config, &comm->config, merged) : result;
  return result == ncclSuccess ? split(*comm, color, key, newcomm, merged) : group_fail(result);
}

SIMGPU_NCCL_EXPORT(ncclCommShrink);
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded_ranks, int excluded_count,
                            ncclComm_t* newcomm, ncclConfig_t* config, int shrink_flags) {
  SIMGPU_ENTER(ncclResult_t);
  const bool abort = (shrink_flags & NCCL_SHRINK_ABORT) != 0;
  Config merged;
  ncclResult_t result =
      abort ? check_comm(comm, "ncclCommShrink") : check_ready(comm, "ncclCommShrink");
  result = result == ncclSuccess ? check_pointer(newcomm, "ncclCommShrink", "newcomm") : result;
  if (result == ncclSuccess && (!excluded_ranks || excluded_count <= 0)) {
    warn("ncclCommShrink : excludeRanksList argument is NULL or empty");
    result = ncclInvalidArgument;
  }
  if (result != ncclSuccess) {
    return group_fail(result);
  }
  std::vector<int> excluded(excluded_ranks, excluded_ranks + excluded_count);
  std::sort(excluded.begin(), excluded.end());
  result = check_excluded(*comm, excluded);
  result = result == ncclSuccess ? parse_config(config, &comm->config, merged) : result;
  return result == ncclSuccess ? shrink(*comm, excluded, newcomm, merged, abort)
                               : group_fail(result);
}
