// What is said about operations that all have entered and that do not end.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/waiting/stalls.h"

namespace traintrace {

std::string stall_title(const Run& run, const RootStall& root);
std::vector<std::string> stall_evidence(const Run& run, const RootStall& root);
// Of one that has not lasted for longer than a step of the job may: "ranks 0-2 have waited 20.0 s
// for rank 3 in ncclAllReduce #6 on communicator tp (4 ranks), which the GPU of that rank has not
// started".
std::string young_stall_text(const Run& run, const Stall& stall);
const char* stall_advice(const Run& run, const Stall& stall, bool given_up);

}  // namespace traintrace
