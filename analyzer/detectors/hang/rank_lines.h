// Evidence about several ranks: those that did the same are one line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/model/run.h"

namespace traintrace {

// "rank 2 polls cudaStreamQuery at mining.py:41 in hard_examples: 41300 times, the last at +83 s"
std::string last_call_text(const Run& run, Rank rank);
// Since when nothing was heard of it while others went on; none: it was, it is known to have ended,
// or its source does not say when it was there (profiles, dumps).
std::optional<TimeNs> silent_since(const Run& run, const RankState& state);
// A call from a line of Python, as far as the rank's events were read.
struct PlacedCall {
  CodePlace place;
  std::string call;
  TimeNs time = 0;
};
// The last of those up to `until`; none: it is not kept.
std::optional<PlacedCall> last_placed_call(const Run& run, Rank rank, TimeNs until);
// Of those between the two times the one that the next came longest after.
std::optional<PlacedCall> call_before_pause(const Run& run, Rank rank, TimeNs from, TimeNs until);
// "cudaStreamSynchronize at train.py:74 in loop, at +6.949 s"
std::string placed_text(const Run& run, const PlacedCall& call);
// Where they did it at different times, the line has the first: "ranks 2-5 are inside
// cudaStreamSynchronize at train.py:9 in step, since +2.100 s or later".
std::vector<std::string> last_call_lines(const Run& run, const Ranks& ranks);

// "rank 3: since its last call it was seen 9 times at data.py:22 in fetch, from +9.2 s to +19.7 s",
// of those that the recorder saw since their last call.
std::vector<std::string> sampled_lines(const Run& run, const Ranks& ranks);

// No more than a finding lists of one kind, and how many there are more.
void add_lines(const std::vector<std::string>& lines, std::vector<std::string>& evidence);

// Begins the lines about those that wait for ranks that wait.
inline constexpr const char* kHeldUp = "held up by it: ";
// As wait_text; those for the same operation from the same line together: "ranks 4-7 wait in
// ncclRecv on 4 communicators (pp_0, pp_1, pp_2, ..) since +2.000 s, for 58.0 s, called at ..".
std::vector<std::string> wait_lines(const Run& run, const std::vector<const Wait*>& waits);
// Communicators for the same purpose have one name in all groups of ranks: "dp (ranks 0,4)" and
// "dp (ranks 1,5)" are for that of dp.
std::string purpose_of(const Run& run, const Wait& wait);
// "communicator dp (4 ranks)", "4 communicators (pp_0, pp_1, pp_2, ..)"
std::string communicators_text(const Run& run, const std::vector<const Wait*>& waits);

}  // namespace traintrace
