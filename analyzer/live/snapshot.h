// What the processes of a job do at the moment when one of them aborts a communicator, left beside
// their traces for a later analysis.
#pragma once

#include <string>

namespace traintrace {

// Of all processes that run and whose traces lie in that folder.  Ends this process after 5 s,
// wherever it is then.  An exit status; nobody reads what could be said.
int leave_snapshot(const std::string& folder);

}  // namespace traintrace
