// The values of a run that were recorded (TRAINTRACE_PAYLOAD, docs/payload.md).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/process/code_place.h"
#include "analyzer/model/run.h"
#include "analyzer/numbers/checks.h"
#include "analyzer/numbers/scalar_type.h"

namespace traintrace {

// Values of one rank that passed one place of its code, called from the same places.
struct ValueSeries {
  Rank rank;
  size_t process = 0;              // in Run::processes
  std::optional<CodePlace> place;  // none: no frame is the user's
  std::string callers;             // further frames of the user's, innermost first
  // Of Python, from the innermost to the first of the user's: "grad_scaler.py GradScaler.step".
  std::vector<std::string> frames;
  std::vector<TimeNs> times;
};

// Scalars that it fetched there.
struct ScalarSeries : ValueSeries {
  uint64_t bytes = 0;            // of one
  std::vector<uint64_t> values;  // little-endian, when the job had them
  TypeOfSeries type;
};

// What it sent to its GPU from there.
struct BatchSeries : ValueSeries {
  std::vector<uint64_t> sizes;   // bytes
  std::vector<uint64_t> hashes;  // equal for equal data
};

// A collective or message of more than one number.
struct Exchange {
  TimeNs enter = 0;
  uint32_t call = 0, stack = 0;
  int data_type = -1;
  bool collective = true;
};

struct Numbers {
  std::vector<ScalarSeries> scalars;                // by place, callers, size, then rank
  std::vector<BatchSeries> batches;                 // by place, callers, then rank
  std::map<Rank, std::vector<TimeNs>> collectives;  // when the rank entered them
  std::map<Rank, std::vector<Exchange>> exchanges;  // in the order of its records
  Checks checks;
};

// Whether its process was asked to record values, and did.
bool has_numbers(const ProcessTrace& trace);

// Adds those of one process.  `events`: the same process with its events, and the code of their
// stacks looked up (look_up_code.h).
void add_numbers(const Run& run, size_t process, const ProcessTrace& events, Numbers& numbers);
// After the last one.
void complete(Numbers& numbers);

// Whether two ranks, or one of them twice, fetched values of the same size from the same line,
// called from the same lines.
bool are_of_one_line(const ScalarSeries& a, const ScalarSeries& b);

// "train.py:118 in train_step"; "an unknown place".
std::string place_text(const ValueSeries& series);
std::string text_at(const ScalarSeries& series, size_t index);

}  // namespace traintrace
