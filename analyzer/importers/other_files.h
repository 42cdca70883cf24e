// Files of other tools, recognised by what is in them.
#pragma once

#include <string>
#include <vector>

#include "analyzer/reader/read_trace.h"

namespace traintrace {

// By its first bytes.
bool may_be_other_tools(const std::string& path);

// By its first bytes too: profiles and snapshots may be gigabytes.
bool may_be_flight_dump(const std::string& path);

// `named`: by the user; then whatever cannot be used is an error.
struct OtherFile {
  std::string path;
  bool named = false;
};
TraceSet read_other_files(const std::vector<OtherFile>& files);

}  // namespace traintrace
