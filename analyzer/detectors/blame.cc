#include "analyzer/detectors/blame.h"

#include <fmt/format.h>

namespace traintrace {

void blame_roots(const Hang& hang, Finding& finding, std::string_view tie) {
  if (is_minority(hang)) {
    finding.culprits = hang.roots;
  } else {
    finding.title += fmt::format("; {}: nobody is blamed", tie);
  }
}

}  // namespace traintrace
