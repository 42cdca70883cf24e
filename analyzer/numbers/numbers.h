// The values of a run that were recorded (TRAINTRACE_PAYLOAD, docs/payload.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/code_place.h"
#include "analyzer/model/run.h"
#include "analyzer/numbers/scalar_type.h"

namespace traintrace {

// Scalars that one rank fetched at one place of its code, called from the same places.
struct ScalarSeries {
  Rank rank;
  size_t process = 0;              // in Run::processes
  std::optional<CodePlace> place;  // none: no frame is the user's
  std::string callers;             // further frames of the user's, innermost first
  // Of Python, from the innermost to the first of the user's: "grad_scaler.py GradScaler.step".
  std::vector<std::string> frames;
  uint64_t bytes = 0;            // of one
  std::vector<TimeNs> times;     // when the job had them
  std::vector<uint64_t> values;  // little-endian
  TypeOfSeries type;
};

struct Numbers {
  std::vector<ScalarSeries> scalars;  // by place, callers, size, then rank
};

// Whether its process was asked to record values, and did.
bool has_numbers(const ProcessTrace& trace);

// Adds those of one process.  `events`: the same process with its events, and the code of their
// stacks looked up (look_up_code.h).
void add_numbers(const Run& run, size_t process, const ProcessTrace& events, Numbers& numbers);
// After the last one.
void complete(Numbers& numbers);

// "train.py:118 in train_step"; "an unknown place".
std::string place_text(const ScalarSeries& series);
std::string text_at(const ScalarSeries& series, size_t index);

}  // namespace traintrace
