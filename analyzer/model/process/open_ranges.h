// Which ranges of NVTX a rank is in: the steps and phases that the job itself names.
#pragma once

#include <string>

#include "analyzer/model/run.h"

namespace traintrace {

// "step 1284", "NCCL/ncclAllReduce": the latter of a domain.
std::string range_name_text(const ProcessTrace& trace, uint32_t range);
std::string range_name_text(const ProcessTrace& trace, const OpenRangeText& range);

// The part of a note's text that this record of it has.
std::string note_text(const ProcessTrace& trace, const CallRecord& event);

// "step 1284 > backward > layers.17" of its main thread, and of the thread that called CUDA or NCCL
// last if that is another one.  Empty: it is in none, or none is known.
std::string open_ranges_text(const Run& run, const RankState& state);

// The same of its main thread when the process first gave a communicator up.  Until then it waited;
// an abort lets it go on for a moment.  Empty: it gave none up, or what it was in is not known.
std::string ranges_at_abort_text(const Run& run, const RankState& state);

// What its main thread was in when it last came into a range of the job's own: an exception leaves
// them all before the process ends.  Empty: that is not known.
std::string last_ranges_text(const Run& run, const RankState& state);

// "samples 88211-88242": the newest note of each key, of all its threads.  Empty: none is known.
std::string notes_text(const Run& run, const RankState& state);

}  // namespace traintrace
