// State that an optimizer of PyTorch's keeps for each parameter, as Adam's averages.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// Whether torch/optim allocated it.  Code of the job that an optimizer calls, as a closure that
// computes the loss, comes before any frame of torch/optim, and is none.
bool is_optimizer_state(const ProcessTrace& trace, uint32_t stack);

// When the optimizer began the first step of all, where that is what `failure` ended; none: it had
// taken one before, after which the job went on.
std::optional<TimeNs> first_optimizer_step(const ProcessTrace& trace,
                                           const OutOfMemoryText& failure);

// LBFGS keeps what it computed in its newest steps, a hundred unless `history_size` says otherwise
// (torch.optim.LBFGS): it grows up to that, each time by as much as all parameters.
bool is_bounded_history(const ProcessTrace& trace, uint32_t stack);

}  // namespace traintrace
