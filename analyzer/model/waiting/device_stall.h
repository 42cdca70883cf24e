// In dumps of Flight Recorder: a rank whose GPU does not get done what those of its peers have.
// stalls.h does that where all operations are listed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/model/ids.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct Run;

struct DeviceStall {
  size_t communicator = 0;  // in Run::communicators
  uint64_t sequence = 0;
  std::string operation;
  OperationText details;
  Ranks peers;           // who are through with it
  uint64_t pending = 0;  // operations of the rank that are known not to be finished
};

// The rank's oldest collective that is known not to be finished while a peer has finished it; how
// long that has been so is the caller's to judge: a rank that issued it just now is moving.  Only
// of those in which everybody needs everybody: what a peer finished, this rank's GPU had all it
// needed for.
std::optional<DeviceStall> device_stall(const Run& run, Rank rank);

}  // namespace traintrace
