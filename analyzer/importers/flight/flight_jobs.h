// Which dumps of Flight Recorder are of one job, and of which of its ranks each is.
//
// By what is in them: processes that have a group in common were there at the same time.  How the
// files are called and where they lie says only what the dumps leave open.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/importers/flight/flight_dump.h"

namespace traintrace {

// The file's modification time, at the latest when the dump was made; 0: not known.
struct FlightFile {
  FlightDump dump;
  TimeNs written = 0;
};

// The same on all ranks: of its name and its members.
uint64_t group_id(const FlightGroup& group);

// By their starts.  No two dumps of a job have the same `rank`; it is empty where nothing tells it.
std::vector<std::vector<FlightFile>> flight_jobs(std::vector<FlightFile> files);

}  // namespace traintrace
