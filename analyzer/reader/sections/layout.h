// The header of a trace, and where its sections lie: checked, so that whoever reads a section need
// not look outside it.
#pragma once

#include <vector>

#include "analyzer/reader/files/trace_bytes.h"
#include "analyzer/reader/process_trace.h"
#include "format/trace_format.h"

namespace traintrace {

struct Layout {
  format::FileHeader header;
  std::vector<format::Section> sections;  // what of them lies in the file, whole elements only

  const format::Section* section(format::SectionKind kind) const;  // null: there is none
};

// An error: this is no trace that can be read.  What is wrong with single sections goes to
// `problems`, and the section is left out or cut.
Result<Layout> read_layout(const TraceBytes& file, std::vector<ReadError>& problems);

}  // namespace traintrace
