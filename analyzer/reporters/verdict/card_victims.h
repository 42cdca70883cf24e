// The victims of a finding as a card shows them: those that are blocked in the same call at the
// same line together, next to the culprit first.
#pragma once

#include <vector>

#include "analyzer/reporters/verdict/card.h"

namespace traintrace {

// At most `most` actors; the last one of them stands for all the rest.
std::vector<CardActor> card_victims(const Run& run, const Finding& finding, size_t most);

// A culprit of a cycle waits as its victims do: in what, before what its host is inside.
void tell_wait_in_cycle(const Run& run, const Finding& finding, CardActor& actor);

}  // namespace traintrace
