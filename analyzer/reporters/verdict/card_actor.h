// What a card says of ranks, whether they are culprits or victims.
#pragma once

#include <string>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"
#include "analyzer/reporters/verdict/card.h"

namespace traintrace {

// "host a, pid 3005, GPU 2"; of several ranks their host, or how many hosts these are.
std::string who_is(const Run& run, const Ranks& ranks);

// What they did last, and what the place that the finding names of the first of them is of that;
// null: it names none.
void tell_what_they_did(const Run& run, const Finding& finding, const CodePlace* place,
                        CardActor& actor);

}  // namespace traintrace
