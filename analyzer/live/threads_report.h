// What every thread of a job does right now: equal stacks together, with the ranks that have them.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "analyzer/model/run.h"

namespace traintrace {

// For people: threads with the same role, waiting for the same at the same place, once; with a mark
// at those of `culprits`.
std::string threads_text(const Run& run, const Ranks& culprits);
// One line per stack and rank: "rank 2;main;outer;inner 1", for flame graphs.
std::string threads_collapsed(const Run& run);
// An array, one object per thread.
nlohmann::ordered_json threads_json(const Run& run);

}  // namespace traintrace
