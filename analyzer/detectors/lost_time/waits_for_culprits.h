// What others lose while they wait for who a finding names: it is lost to the same cause.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/timeline/profile.h"

namespace traintrace {

// Adds to Finding::named of warnings that say why ranks come late, for each GPU that is none of
// theirs.  What another finding has named already may be named twice; who sums up takes no more
// than there was.
void name_waits_for_culprits(const Profile& profile, std::vector<Finding>& findings);

// Places in Profile::timelines: those, and who meets them in some group and waits in collectives
// for so long that it is worth a warning, and so on: who comes late to one group because it waits
// in another makes the ranks of that one wait.
std::set<size_t> with_those_held_up(const Profile& profile, std::set<size_t> timelines);

}  // namespace traintrace
