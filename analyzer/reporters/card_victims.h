// The victims of a finding as a card shows them: those that are blocked in the same call at the
// same line together, next to the culprit first.
#pragma once

#include <vector>

#include "analyzer/reporters/card.h"

namespace traintrace {

// At most `most` actors; the last one of them stands for all the rest.
std::vector<CardActor> card_victims(const Run& run, const Finding& finding, size_t most);

}  // namespace traintrace
