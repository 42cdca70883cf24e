// Calls that a communicator was not ready for, or not there for any more.
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

enum class MisuseKind : uint8_t {
  kAfterEnd,  // its handle was used behind ncclCommAbort or ncclCommDestroy
  kTooEarly,  // non-blocking, and what was under way had not been polled until it was done
};

// A watchdog aborts because a rank waited; what the job's other threads call then is refused, too.
enum class MisuseIs : uint8_t { kCause, kConsequence };

struct Misuse {
  MisuseKind kind = MisuseKind::kAfterEnd;
  MisuseIs is = MisuseIs::kCause;
  Rank rank;
  size_t process = 0;       // in Run::processes
  size_t element = 0;       // the communicator that was meant, in that trace's `communicators`
  OperationText operation;  // the call that came too late, or too early
};
std::vector<Misuse> misuses_of(const Run& run);  // by rank, then communicator

// Errors that NCCL reported by itself (ncclCommGetAsyncError) on a communicator.
struct AsyncErrors {
  size_t communicator = 0;
  Ranks first;   // who reported first; several where that cannot be told
  Ranks others;  // who followed
  int error = 0;
  TimeNs time = 0;
};
std::vector<AsyncErrors> async_errors_of(const Run& run);

// Its roots do not come because of one of these, a cause; or because they have destroyed the
// communicator.
bool is_misuse(const Run& run, const Hang& hang);
bool is_async_error(const Run& run, const Hang& hang);
bool is_destroyed(const Run& run, const Hang& hang);

}  // namespace traintrace
