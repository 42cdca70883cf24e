// Dumps of PyTorch's Flight Recorder, one file per rank, pickle or JSON, as the processes of a run.
//
// What a dump does not say, those of the other ranks do, or it is left open: which rank it is of
// (the file's name), when it was made, and what its counters count (flight_jobs.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analyzer/importers/flight/flight_jobs.h"
#include "analyzer/reader/read_trace.h"

namespace traintrace {

// As the processes of runs.  What a dump leaves open is settled among those of its job.
struct FlightSet {
  std::vector<ProcessTrace> processes;
  std::vector<ReadError> unreadable;  // files that are no dumps that can be used
  std::vector<ReadError> unplaced;    // dumps of which cannot be told which rank they are of
};

// Of whatever jobs, in whatever order.
FlightSet settle_flight_dumps(std::vector<FlightFile> files);

// What is in `arena` is gone.
Result<FlightFile> read_flight_file(const std::string& path, ValueArena& arena);
FlightSet read_flight_files(std::span<const std::string> paths);

}  // namespace traintrace
