// What a dump counts for each process group beside its entries (pg_status).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/importers/flight/flight_dump.h"
#include "analyzer/importers/plain_value.h"

namespace traintrace {

// 2^62: so that numbers of damaged dumps do not wrap.
inline constexpr int64_t kMostFlightNumber = int64_t{1} << 62;

// A number of a dump, in a pickle or as text in JSON; nullopt: it is none, negative or too large.
std::optional<uint64_t> flight_number(const Value* value);

struct FlightStatus {
  bool said = false;  // a group's last enqueued operation is known
  bool busy = false;  // a group has enqueued more than is complete
};

// Gives each group what `status` counts of it.  It counts by the number that a group has in its
// process, which is completed here for groups without entries.
FlightStatus add_flight_status(const Value* status, std::vector<FlightGroup>& groups);

// It counts starts, which PyTorch knows only where it times operations; not where what it counts is
// said not to have started.
bool has_counted_starts(const FlightDump& dump);

}  // namespace traintrace
