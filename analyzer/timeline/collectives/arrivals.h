// The same collective on all ranks: who came last to it, and what of its time was waiting.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/timeline/collectives/clocks.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

// A collective as all its members saw it; the vectors are parallel to Arrivals::members.
struct Arrival {
  std::string operation;          // "allreduce", else the kernel's name
  std::vector<int64_t> start_ns;  // on the GPU, one clock for all
  std::vector<int64_t> end_ns;
  std::vector<int64_t> launch_ns;     // by the host; where it was not recorded, start_ns
  std::vector<bool> launched;         // it was recorded, or the profile has no launches at all
  std::vector<uint64_t> correlation;  // of the kernels
  // Host time in calls that wait for the GPU, or in which the profiler worked for itself, between
  // the last collective's launch and this one's.
  std::vector<int64_t> blocked_ns;
  // How long the GPU worked on what was launched since the last collective, without communication.
  // Empty by the host's calls alone.
  std::vector<int64_t> worked_ns;
  // By the host's calls alone: times are those of entering, ends are no measure, and as its own
  // doing counts at most while the member's GPU certainly had nothing to do.  Else empty.
  std::vector<int64_t> most_own_ns;

  int64_t last_start() const;
  int64_t median_end() const;
  // Of member i: until the last came.
  int64_t wait_of(size_t i) const;
  int64_t transfer_ns() const;  // from the last start to the median end
  int64_t end_skew_ns() const;
  // Ends agree as far as clocks and transfer explain; else who came late to it is not known.
  bool is_known() const;
};

// Of one group of ranks: others never meet them in a collective.
struct Arrivals {
  std::string group;  // its name; empty: it is not known which groups there are
  // Each process's place in the timelines; empty: nothing could be joined, and `why_not` says why.
  std::vector<size_t> members;
  std::vector<Arrival> list;  // in their order
  // When the members came to the first: on the GPU, or to where the host waited for the others.
  std::vector<int64_t> entered_ns;
  bool knows_entry = false;  // these are of one clock, and of the same collective
  std::string why_not;
  // In how many ends differ by more than clocks and transfer explain: they are left out.
  size_t contradicted = 0;
  int64_t greatest_end_skew_ns = 0;
  // By their numbers in the communicator all members ran the same ones.
  bool numbered = false;
  bool by_host = false;  // Timeline::by_host
  // Some members have work before the first or after the last that others have not recorded: only
  // what lies between these can be compared.
  bool cut = false;
  AlignedClocks clocks;  // times are by the clock of the first member

  // Nobody is late by less.
  int64_t noise_ns() const;

  // Where a timeline is among the members; none: it is not.
  std::optional<size_t> member(size_t timeline) const;

  // Where most contradict each other, or hosts' clocks could not be brought together, it is the
  // timelines that do, and nothing can be said about who was late.
  bool usable() const {
    return !list.empty() &&
           (contradicted == 0 || (clocks.why_not.empty() && 2 * contradicted < list.size()));
  }
};

// Joins the NCCL kernels of each group by their numbers where the framework wrote them, else by
// their order; only of groups whose ranks are all there.  Never empty, unless `timelines` is.
std::vector<Arrivals> find_arrivals(std::span<const Timeline> timelines);

// CollectiveNote::last_came_ns of the timelines that they were found in.
void note_late_peers(const std::vector<Arrivals>& groups, std::span<Timeline> timelines);

// How late each member itself made the collectives, apart from what it entered the window with.
struct OwnLateness {
  size_t member = 0;               // in Arrivals::members
  int64_t charged_ns = 0;          // sum over the collectives that it made late
  size_t times = 0;                // how many these are
  std::vector<int64_t> charges;    // of each of them, in their order
  std::vector<size_t> charged_at;  // which these are, in Arrivals::list
  // By how much it came earlier than the median where its host had less to do than the usual one,
  // in ns: where most stall, who stalls at another time did not do so then.
  std::vector<int64_t> spared;
  int64_t entry_ns = 0;   // later than the median at the first collective; <= 0: not late
  int64_t waited_ns = 0;  // for others
};

// The one before `index` of which it is known who came late, else the first.
size_t known_before(const Arrivals& arrivals, size_t index);

// By how much each member itself made the `index`th collective later than the median, from the
// second on; negative: earlier.  In the order of the members; of known ones only.
std::vector<int64_t> lateness_at(const Arrivals& arrivals, size_t index);

// What each member's host did beyond the usual since the last known one, in ns, without the time
// in calls that wait, whether it made the collective late or not; negative: less.  Of two members
// the usual is what the lesser does.
std::vector<int64_t> host_excess_at(const Arrivals& arrivals, size_t index);

// As lateness_at, of what each member's host needed beyond the usual, also where it is not certain
// that its GPU had nothing to do meanwhile.  Of two members the usual is what the other needs.
std::vector<int64_t> host_lateness_at(const Arrivals& arrivals, size_t index);

// Host time between two collectives beyond the median of all ranks is charged to a rank, less what
// it spent waiting for the GPU, and at most as much as it then came later than the median.
std::vector<OwnLateness> own_lateness(const Arrivals& arrivals);

}  // namespace traintrace
