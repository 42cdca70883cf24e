// Stages: parts of the work that may fail alone.  A stage that throws, or that kills the process
// (supervise.h), costs its own result; the rest goes on, and the failure is told as
// `internal.error`.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace traintrace {

// A defect of traintrace itself, whatever the input was.
struct InternalError {
  std::string stage;   // "detector find_late_ranks", "read /runs/a.trace"
  std::string reason;  // what was thrown, or the signal: "SIGSEGV"

  auto operator<=>(const InternalError&) const = default;  // NOLINT(modernize-use-nullptr)
};

// False: `work` has thrown, or it is not run since it killed an earlier attempt.  What it writes
// outside must be fit for use at any time.  Stages may be nested and may run on several threads.
bool run_stage(const std::string& stage, const std::function<void()>& work);

// What `work` returns, else `instead`.
template <class Value, class Work>
Value stage_or(const std::string& stage, Value instead, const Work& work) {
  run_stage(stage, [&] { instead = work(); });
  return instead;
}

// Of this process so far; each once, sorted.
std::vector<InternalError> internal_errors();
void forget_internal_errors();

// For fuzzing: what a stage throws goes through it.
void let_failures_through();

// What to do about it, in one sentence.
extern const char* const kReportInternalError;

}  // namespace traintrace
