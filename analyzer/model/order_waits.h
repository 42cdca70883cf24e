// Waiting that follows from the order in which a rank issued its operations, where nothing is known
// of the streams that they lie on, as in dumps of PyTorch's Flight Recorder.
//
// The oldest operation of a rank that is not finished is the one it is held up in; what it issued
// behind that, its peers cannot get.  That is not certain, since streams may overtake each other,
// so it only says who else waits for a rank that others are known to wait for, and blames nobody;
// and that a rank which is missing somewhere is itself held up in what all have called, by those
// who called it behind what they wait for that rank in: then they wait for each other.
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

void add_order_waits(const Run& run, std::vector<Wait>& waits);

}  // namespace traintrace
