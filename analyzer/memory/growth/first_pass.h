// Whether what repeats is no step: the layers of a first pass forward, one after the other.
#pragma once

#include "analyzer/memory/history.h"

namespace traintrace {

// Layers run, and in these steps neither a backward pass nor an optimizer, whatever came before
// them.
bool only_goes_forward(const ProcessTrace& trace, const Steps& steps);

// A job that has not gone backward yet may still be in its first pass, which keeps something of
// each layer for the way back.  A loop brings something back again and again: data goes to the
// device or results come from it, or what was allocated outside of the layers, as a batch is, is
// freed.
bool may_be_first_pass(const ProcessTrace& trace, const Steps& steps);

}  // namespace traintrace
