// Dumps of PyTorch's Flight Recorder, one file per rank, pickle or JSON, as the processes of a run.
//
// What a dump does not say, those of the other ranks do, or it is left open: which rank it is of
// (the file's name), when it was made, and what its counters count.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analyzer/importers/flight_dump.h"
#include "analyzer/reader/read_trace.h"

namespace traintrace {

// The file's modification time, at the latest when the dump was made; 0: not known.
struct FlightFile {
  FlightDump dump;
  TimeNs written = 0;
};

// Every number that may be the rank in a file's name, the most likely first.
std::vector<int> ranks_in_name(const std::string& path);
// The name without its rank, or without numbers: equal for the dumps of one job.
std::string name_without_rank(const std::string& path);

// Of one job, whatever their order.
std::vector<ProcessTrace> settle_flight_dumps(std::vector<FlightFile> files);

// What is in `arena` is gone.
Result<FlightFile> read_flight_file(const std::string& path, ValueArena& arena);
// Files that cannot be used are in `errors`.
TraceSet read_flight_files(std::span<const std::string> paths);

}  // namespace traintrace
