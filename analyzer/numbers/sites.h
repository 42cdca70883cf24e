// Where in the job's code recorded values passed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/model/process/code_place.h"

namespace traintrace {

// Of one stack.
struct Site {
  std::optional<CodePlace> place;  // none: no frame is the user's
  std::string callers;             // further frames of the user's, innermost first
  // Of Python, from the innermost to the first of the user's: "grad_scaler.py GradScaler.step".
  std::vector<std::string> frames;

  auto key() const { return std::tuple(place ? place_text(*place) : "", callers, frames); }
};

Site site_of(const ProcessTrace& trace, Rank rank, uint32_t stack);

// The line of the job that calls backward(), if there is but one.  PyTorch's autograd sends from
// threads of its own, which run no Python, for the thread that waits in backward().
std::optional<CodePlace> place_of_backward(const ProcessTrace& trace, Rank rank);

// "train.py:118 in train_step"; "an unknown place".
std::string place_text(const std::optional<CodePlace>& place);

}  // namespace traintrace
