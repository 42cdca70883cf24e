#include "analyzer/detectors/hang/blame.h"

#include <fmt/format.h>

namespace traintrace {

void blame_roots(const Hang& hang, Finding& finding, std::string_view tie) {
  if (hang.by_one_of_two) {
    finding.title += "; either it left that out, or it was not to be asked: no culprit";
  } else if (is_minority(hang)) {
    finding.culprits = hang.roots;
  } else {
    finding.title += fmt::format("; no culprit: {}", tie);
  }
}

}  // namespace traintrace
