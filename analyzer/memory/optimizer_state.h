// State that an optimizer of PyTorch's keeps for each parameter, as Adam's averages.
#pragma once

#include <cstdint>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// Whether torch/optim allocated it.  Code of the job that an optimizer calls, as a closure that
// computes the loss, comes before any frame of torch/optim, and is none.
bool is_optimizer_state(const ProcessTrace& trace, uint32_t stack);

// LBFGS keeps what it computed in its newest steps, a hundred unless `history_size` says otherwise
// (torch.optim.LBFGS): it grows up to that, each time by as much as all parameters.
bool is_bounded_history(const ProcessTrace& trace, uint32_t stack);

}  // namespace traintrace
