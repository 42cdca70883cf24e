// Which processes had memory of a GPU when an allocation failed there, as NVML told PyTorch
// (interpose/gpu/device_processes.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

struct DeviceUser {
  uint64_t pid = 0;
  std::optional<uint64_t> bytes;  // none: not told
  std::optional<Rank> rank;       // of this run; none: it was not recorded, or is of another run
};

struct DeviceUsers {
  std::vector<DeviceUser> others;  // most bytes first; without the process that was refused
  // That one is in the list, by its own number.  Else the numbers are of another namespace, as in a
  // container, and one of them may be this process.
  bool names_own = false;
};

// None: nobody asked then.
DeviceUsers device_users(const Run& run, const RankState& state, const OutOfMemoryText& failure);

// "process 4242, which was not recorded", "process 4242, rank 3 of this job"
std::string user_text(const DeviceUser& user);

}  // namespace traintrace
