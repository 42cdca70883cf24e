// Two runs of one job: which of the recorded values differs first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/numbers/nccl_conditions.h"
#include "analyzer/numbers/numbers.h"
#include "analyzer/numbers/read_again.h"

namespace traintrace {

enum class DiffedValue : uint8_t {
  kScalar,
  kBatch,
  kInput,   // of a checked operation
  kResult,  // of one whose inputs are the same on all ranks
};

struct ValueDiff {
  DiffedValue kind = DiffedValue::kScalar;
  Ranks ranks;  // of which the same value is the first that differs
  std::string place;
  size_t number = 0;  // from 1: as many as `number` - 1 before it are the same
  TimeNs since_a = 0,
         since_b = 0;       // from the start of each run until the first of these ranks had it
  std::string a, b;         // of scalars their values on that rank, of operations their norms
  bool is_rounding = true;  // of scalars: they are nearly the same
  // Of operations: which one it is, and of inputs the rank's last one before.
  std::string operation = {}, before = {};
  // Of results: what NCCL's order of adding depends on and differs, and else what is the same.
  std::vector<ConditionDiff> conditions = {};
  std::string same_conditions = {};
};

enum class DiffedRun : uint8_t { kA, kB };

struct NumbersDiff {
  std::vector<ValueDiff> differences;  // of each place the first one, by `since_a`
  size_t same = 0;                     // series that are equal as far as both go
  size_t same_operations = 0;          // checked ones that are equal, up to the first that is not
  size_t incomplete = 0;               // series of which records are missing: not compared
  // What the run that started later read again of the other one's data.
  std::vector<ReadAgain> again;
  // That is all of it from its start on, with other weights: data that began again where it resumed
  // the other one's work, and nothing to speak of where it is another run.
  bool again_from_start = false;
  DiffedRun later = DiffedRun::kB;
};

// No records of it were overwritten.
bool is_complete(const ProcessTrace& trace);

// Values are compared by place in the code, rank and number, from the first on.
NumbersDiff diff_numbers(const Run& run_a, const Numbers& a, const Run& run_b, const Numbers& b);

}  // namespace traintrace
