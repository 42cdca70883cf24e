// Where the processes of this machine record to.
#pragma once

#include <string>
#include <vector>

#include "analyzer/reader/result.h"

namespace traintrace {

// Folders of traces of the processes that this user may look at.  An error: there is none.
Result<std::vector<std::string>> recorded_folders();

}  // namespace traintrace
