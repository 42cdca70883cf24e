// What can be said of a job that nobody recorded, from its threads alone.
#pragma once

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Who is inside NCCL or CUDA and who is not.  It blames nobody: how long they have been there, and
// in which operation, is not known.
Finding unrecorded_finding(const Run& run, TimeNs interval);

}  // namespace traintrace
