// Which caller of a helper memory is of: a line through which several places allocate says little.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

class HelperCallers {
 public:
  // `stacks`: of all that is held.
  HelperCallers(const ProcessTrace& trace, const std::vector<uint32_t>& stacks);
  // "train.py:22 in optimizer_state": where the ways that lead to its line part.  Empty: one way
  // leads there, or so many that each is little.
  std::string of(uint32_t stack) const;

 private:
  std::map<uint32_t, std::string> callers_;
};

}  // namespace traintrace
