// What a process's environment says about the job it belongs to.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// Where launchers write ranks; the first that names all processes of a run is believed.
struct RankVariables {
  const char* rank;
  const char* world_size;
};
inline constexpr RankVariables kRankVariables[] = {
    {"RANK", "WORLD_SIZE"},           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMIX_RANK", "PMI_SIZE"},        {"PMI_RANK", "PMI_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
};

// Of env.NAME; empty if it is not set.
std::string_view environment(const ProcessTrace& trace, const std::string& name);
// Of damaged traces: more ranks than that nobody has, and nobody could read the list of those
// missing.
inline constexpr int kMostRanks = 1 << 17;
// Not negative, less than kMostRanks; none if it is no such number.
std::optional<int> environment_number(const ProcessTrace& trace, const std::string& name);

// By the first of kRankVariables that is set.
std::optional<int> launched_rank(const ProcessTrace& trace);

// Equal for all processes that one launcher started at one time, as far as it says so; empty if
// nothing is said.  Runs one after the other may well have the same.
std::string launch_key(const ProcessTrace& trace);

// What people call such a run: "TORCHELASTIC_RUN_ID", "slurm-12.0", with "-restart2"; may be empty.
std::string launch_name(const ProcessTrace& trace);

// The earliest time at which the process is known to have been there; 0: no time is known.
TimeNs first_sign_of_life(const ProcessTrace& trace);

// The latest time at which the process is known to have been there.
TimeNs last_sign_of_life(const ProcessTrace& trace);

}  // namespace traintrace
