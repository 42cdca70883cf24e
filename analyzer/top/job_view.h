// A job while it runs: what each rank does at this moment, who is late, and since when who stands
// still.  Told from a few words of each trace (live_process.h), again and again.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/ids.h"
#include "analyzer/reader/read_trace.h"
#include "analyzer/top/live_process.h"

namespace traintrace {

enum class LiveState : uint8_t {
  kMoving,
  kBlocked,  // in a call, or polling, for longer than --hang-after
  kOnHost,   // no call of CUDA or NCCL for as long
  kStopped,  // by a signal, a debugger or its cgroup
  kSilent,   // its trace is not written any more, and it is not known to have ended
  kEnded,
};
const char* live_state_name(LiveState state);  // as in JSON: moving, blocked, on-host, ..

// One process: nearly always one rank.
struct RankView {
  Ranks ranks;
  std::string host;
  int pid = 0;
  int device = -1;     // -1: not known
  std::string source;  // its trace
  LiveState state = LiveState::kMoving;
  std::string doing;         // "cudaStreamSynchronize", "ncclAllReduce"; of ended ones how
  TimeNs since = 0;          // of all but those that move: when that began
  std::string communicator;  // of the last collective; empty: there was none
  std::string collective;    // ncclAllReduce
  uint64_t sequence = 0;     // of it
  TimeNs entered = 0;        // when it was; 0: there was none
  bool pending = false;      // it is not known to be finished
  // Steps, counted by a collective that comes once in each; 0: not found.
  uint64_t step = 0;
  int64_t step_ns = 0;            // the last whole one
  std::vector<int64_t> steps_ns;  // the last ones, oldest first
  std::optional<int64_t> lag_ns;  // behind the median member, over the last collectives
  // Collectives that the furthest member of its largest communicator has issued and it has not.
  std::optional<uint64_t> behind;
  int last_count = 0, of_count = 0;                // how many of these it entered last
  bool is_slow = false;                            // and that is more than chance
  uint64_t allocated = 0, reserved = 0, peak = 0;  // bytes; reserved 0: not by an allocator
  int64_t growth = 0;                              // bytes allocated since this view began
  uint32_t stack = 0;                              // of its last call, in its trace
};

// Ranks that are the same to somebody who looks: in one state, at one collective, not slow.
struct RowView {
  Ranks ranks;
  std::vector<size_t> members;  // in JobView::ranks, the one that stands for them first
};

struct JobView {
  std::string run;
  TimeNs time = 0;
  TimeNs started = 0;
  std::vector<std::string> hosts;
  int world_size = 0;
  std::vector<RankView> ranks;
  std::vector<RowView> rows;
  int64_t median_step_ns = 0;     // 0: not known
  uint64_t step = 0;              // of the rank that is furthest
  std::optional<size_t> slowest;  // in `ranks`, if one is slow
  // Of those that do not move, those that have issued fewest collectives, if others have more.
  std::vector<size_t> furthest_behind;
  std::vector<ReadError> unreadable;  // traces whose ranks are not among these
  size_t count(LiveState state) const;
};

enum class TopOrder : uint8_t { kRank, kLag, kMemory, kGrowth };

struct FollowedProcess;

class LiveJob {
 public:
  // An error: none of the inputs (folders of traces, or traces) can be used.
  static Result<LiveJob> open(const std::vector<std::string>& inputs, TimeNs blocked_after);
  LiveJob(LiveJob&&) noexcept;
  ~LiveJob();

  JobView look(TopOrder order);
  // The job's frames of the rank's last call, innermost first, and what holds its memory: read from
  // the whole trace, on demand.
  std::vector<std::string> frames(const RankView& rank, size_t most);
  std::vector<std::string> memory(const RankView& rank, size_t most);
  // The innermost frame; empty: none, or it is not known yet (it takes turns).
  std::string place(const RankView& rank);
  // Whether there are traces by now that were not there when this began.
  bool is_outdated() const;

 private:
  LiveJob();
  void note_steps();
  void note_behind(std::vector<RankView>& views) const;
  void note_lags(std::vector<RankView>& views);

  std::vector<std::string> inputs_;
  std::vector<std::string> files_;
  std::string run_;
  TimeNs started_ = 0;
  int world_size_ = 0;
  TimeNs blocked_after_ = 0;
  std::vector<std::unique_ptr<FollowedProcess>> processes_;
  std::vector<ReadError> unreadable_;
};

// Of what is the same one row, most urgent first.
void fold_ranks(JobView& view, TopOrder order);

}  // namespace traintrace
