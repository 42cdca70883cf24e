// traintrace analyze --mpi: one process per host reads what lies there, one judges.
#pragma once

#include "analyzer/commands/analyze.h"

namespace traintrace {

// Under mpirun or srun.  Each process packs the tables of the traces that it can read and that no
// other was given; the first one judges what all have sent as if it lay on its own disk, and asks
// for the event records of the few that the judgement needs them of.  It prints the report; the
// others print nothing and return 0.  Without a launcher or MPI: `analyze`.
int analyze_with_others(const AnalyzeOptions& options);

}  // namespace traintrace
