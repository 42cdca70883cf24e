// Recorded numbers as people look at them: a picture for each line of code, with a curve for each
// rank.  The page and the export for Perfetto draw them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/model/process/code_place.h"
#include "analyzer/model/run.h"
#include "analyzer/numbers/numbers.h"

namespace traintrace {

enum class CurveKind : uint8_t {
  kScalar,     // what the job fetched from its GPU
  kNorm,       // L2 norms of a buffer of NCCL; NaN or infinite where an element is
  kNonfinite,  // how many elements of such a buffer are NaN or infinite
};

// Of one rank.  `times` and `values` have the same length, in the order in which the job had them.
struct NumberCurve {
  Rank rank;
  size_t process = 0;  // in Run::processes
  std::vector<TimeNs> times;
  std::vector<double> values;  // NaN and infinities as they were recorded
};

struct CurveGroup {
  CurveKind kind = CurveKind::kScalar;
  std::optional<CodePlace> place;  // of the first rank; none: no frame is the user's
  // "train.py:118 in step: float32"; no two groups of a run have the same.
  std::string name;
  ScalarType type = ScalarType::kFloat64;
  std::vector<NumberCurve> curves;  // by rank
};

// Of all that can be drawn: scalars whose type is known, and checked buffers.  By place.
std::vector<CurveGroup> curves_of(const Run& run, const Numbers& numbers);

// Indices of at most `most` values (8 or more), ascending, of which a picture looks like one of
// all: the first, the last, and of each part of equal length its least, its largest, and the first
// that is not finite.
std::vector<size_t> thinned(std::span<const double> values, size_t most);

}  // namespace traintrace
