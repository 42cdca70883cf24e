// What is said about operations that all have entered and that do not end.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/waiting/stalls.h"

namespace traintrace {

std::string stall_title(const Run& run, const RootStall& root);
std::vector<std::string> stall_evidence(const Run& run, const RootStall& root);
const char* stall_advice(const Run& run, const Stall& stall, bool given_up);

}  // namespace traintrace
