// What findings about a hang (Run::waits.hangs) have in common.
#pragma once

#include <optional>
#include <string>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Reasons why what rests on something's absence is no proof.
struct Doubts {
  bool lost_records = false;
  bool missing_traces = false;
  bool truncated = false;
  bool corrupt = false;
  bool clocks = false;
  bool dumps = false;    // of Flight Recorder: when they were made is not known
  bool undated = false;  // nor does anything else say it: that it hung is taken from where all wait

  bool any() const {
    return lost_records || missing_traces || truncated || corrupt || clocks || dumps || undated;
  }
};
Doubts doubts_about(const Run& run, const Hang& hang);

// Does a doubt of that kind lower the certainty of any hang of the run?
bool any_doubt(const Run& run, bool Doubts::*doubt);

// Everything but title, certainty and who is to blame.
Finding hang_finding(const Run& run, const Hang& hang, std::string_view code);

// A majority cannot be wrong about a minority of three or more: then the roots are the culprits.
bool is_minority(const Hang& hang);
// That the twins did alike, and not as those that parted from them.
std::string parted_text(const Ranks& twins, const Ranks& parted);

// "ncclAllReduce of 1024 float32 (4096 bytes), sum"
std::string arguments_text(const std::string& function, const OperationText& operation);
std::optional<uint64_t> bytes_of(const OperationText& operation);
// "ncclAllReduce #812 on communicator dp (4 ranks)"
std::string operation_text(const Run& run, const Wait& wait);
// "3 ranks wait", "rank 0 waits"; "3 ranks waited" once they have ended
std::string waiting_text(const Run& run, const Hang& hang);
// ", and 12 more wait for them", of those that wait for the former; or nothing
std::string further_text(const Run& run, const Hang& hang);
// "never entered"; "has not entered" or "have not entered", as long as the job goes on.
std::string never_text(const Run& run, const Ranks& ranks, std::string_view done);
// "ranks 0,2 wait in ncclAllReduce #5 on communicator dp (4 ranks) since +2 s, for 28 s, called at
// train.py:118 in train_step"
std::string wait_text(const Run& run, const Wait& wait);
std::string seconds(TimeNs duration);  // "41.2 s"
// "for 41.2 s"; of a dump that nothing dates: "for 600.0 s, until the first time limit".
std::string wait_length_text(const ProcessTrace& trace, const std::string& duration);
std::string signal_text(int signal);  // "signal 9 (Killed)"
// "+12.5 s" after the start of the run.
std::string run_time(const Run& run, TimeNs time);

// What keeps its process from running: "stopped (SIGSTOP or a debugger)"; empty: nothing that is
// seen.
std::string halt_text(const RankState& state);
// Of ranks without a trace: "left no trace here, but on another host"
const char* no_trace_text(const Run& run, const Ranks& ranks);

// Evidence: who was waiting for whom at the end, and for how long.  The longest of these times.
TimeNs add_waits(const Run& run, Finding& finding);

}  // namespace traintrace
