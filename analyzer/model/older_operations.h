// Operations that a communicator's table does not keep any more: it keeps its last 64, and a host
// may be further ahead of its GPU than that.
#pragma once

#include <cstddef>
#include <vector>

#include "analyzer/model/divergence/narrow_divergences.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Puts those that are not over in front of CommunicatorText::recent, from the event records of the
// processes, for communicators of which all that is kept is unfinished; as far back as the records
// go without a gap.  Whether there were any.
bool add_older_operations(Run& run, const ReadEvents& read_events);

// While it lives the run is without them: ranks are compared by what the tables of all keep, which
// reaches equally far back for equal programs.  The run must outlive it.
class WithoutOlderOperations {
 public:
  explicit WithoutOlderOperations(Run& run);
  ~WithoutOlderOperations();
  WithoutOlderOperations(const WithoutOlderOperations&) = delete;
  WithoutOlderOperations& operator=(const WithoutOlderOperations&) = delete;

 private:
  struct Older {
    size_t process;
    size_t element;
    std::vector<OperationText> operations;
  };

  Run& run_;
  std::vector<Older> all_;
};

}  // namespace traintrace
