// What findings about lost time have in common.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/detectors/lost_time/habit.h"
#include "analyzer/detectors/lost_time/latency.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/host_times.h"

namespace traintrace {

// Whether the idle time of that GPU may be explained at all.
bool is_attributed(const DeviceProfile& device);

// A loss on some of the GPUs.
struct LossOn {
  const DeviceProfile* device;
  int64_t ns;
};

// Those on which `loss` takes at least `share` of the window; longest first.
std::vector<LossOn> losses_of(const Profile& profile, double share,
                              const std::function<int64_t(const DeviceProfile&)>& loss);

// The same of idle time for which the host is the reason: not where so much would not be left
// without the time in which the profiler worked for itself.
std::vector<LossOn> idle_losses_of(const Profile& profile, double share,
                                   const std::function<int64_t(const DeviceProfile&)>& loss);

// What comes in each step may be told per step.
enum class Comes : uint8_t { kAgainAndAgain, kNowAndThen };
// With code, severity, certainty, culprits (the ranks that lose it), `values` idle_ns, idle_percent
// and, where it is a habit and steps are known, idle_ns_per_step of the one that loses most, and a
// line of evidence for each.
Finding loss_finding(std::string_view code, const std::vector<LossOn>& losses,
                     Comes comes = Comes::kAgainAndAgain);

// "the GPU of rank 0 is idle for 28.6 % of 996.5 ms", "the GPUs of ranks 0,1 are idle for up to
// ..".
std::string idle_text(const std::vector<LossOn>& losses);

using SiteFilter = std::function<bool(const IdleSite&)>;
// The sites of a kind of loss with those of their gaps that come again and again, most idle time
// first.  What came once is left out.
std::vector<IdleSite> repeated_sites(const DeviceProfile& device, const SiteFilter& is_of);
// The same of copies and sets with nothing else beside them.
std::vector<IdleSite> repeated_copies(const DeviceProfile& device, const SiteFilter& is_of);
// And the others, idle time and copies.
std::vector<IdleSite> single_pauses(const DeviceProfile& device, const SiteFilter& is_of);
std::vector<IdleSite> single_copies(const DeviceProfile& device);
int64_t sum_ns(const std::vector<IdleSite>& sites);
SiteFilter of_cause(IdleCause cause);
// Of idle time after asynchronous copies that blocked the host, being from or to pageable memory.
bool is_after_pageable_copy(const IdleSite& site);
// A copy from or to pageable memory itself.
bool is_pageable(const IdleSite& site);

// The idle time of that cause that comes again and again, where it is enough to warn of; else 0.
int64_t repeated_loss(const DeviceProfile& device, IdleCause cause);
// Of launches that came too late, where so much is; and the sites.
int64_t late_loss(const DeviceProfile& device, double share);
std::vector<IdleSite> late_sites(const DeviceProfile& device);

// The same of one rank and of several.
struct Doing {
  std::string_view one, several;
};
// Those whose hosts do as the losers' do while their GPUs wait in collectives (alike) are culprits
// too, and the title ends with them: "the hosts of ranks 1,2 `doing.several`".
void add_alike(const Profile& profile, const std::vector<LossOn>& losses, HostTime kind,
               const Doing& doing, Finding& finding);

int64_t percent_of(const DeviceProfile& device, int64_t ns);  // of the window, rounded

// "28.6 % of 996.5 ms"
std::string share_text(const DeviceProfile& device, int64_t ns);
std::string ms_text(int64_t ns);  // "12.3 ms", "4.5 us"
// ", called by train.py(31): log_loss" or ", while the host was in ..", else " within aten::item",
// else " of gemm_kernel"; empty: nothing is known.
std::string caller_text(const IdleSite& site);
// "train.py:118 in train_step" of a frame as profilers write it; as it is where that is none.
std::string site_text(const std::string& site);

// The places that lose most of it, the first of each device as `where`, others as evidence; and all
// of them as what the finding names.
void add_sites(const std::vector<LossOn>& losses,
               const std::function<std::vector<IdleSite>(const DeviceProfile&)>& sites_of,
               Finding& finding);
// What the finding names of a device.
void name_loss(const DeviceProfile& device, size_t kind, int64_t ns, Finding& finding);
// What a rank's time in collectives is, over all groups of which it is known who was late.
struct CollectiveTimes {
  bool known = false;         // of any group
  int64_t waited_ns = 0;      // for others, from the second collective of a group on
  int64_t single_ns = 0;      // of that, what is no habit: somebody was late once
  int64_t first_wait_ns = 0;  // in the first, for what lies before the recording
  int64_t unknown_ns = 0;     // in those of which it is not known who came late to them
  int64_t left_out_ns = 0;    // all of the first ones and the unknown ones
};
CollectiveTimes collective_times(const Profile& profile, const DeviceProfile& device);
// Of all waits in collectives.
Habit habit_of_waits(const DeviceProfile& device);
// What is none.  Empty where steps are not known.
std::vector<CollectiveWait> unusual_waits(const DeviceProfile& device);
// And does not come again either: in one step or two, or in a burst of them.
std::vector<CollectiveWait> single_waits(const DeviceProfile& device);
// Waiting for late ranks in collectives from the second on, as far as known; without what is no
// habit, or with it; in the first.
void name_waits(const Profile& profile, Finding& finding, bool single_too = false);
void name_first_waits(const Profile& profile, Finding& finding);
// " of group dp", where it has a name and there are others.
std::string group_text(const Profile& profile, const Arrivals& arrivals);
// Whether it is known of any group who came late to its collectives; else why it is not.
bool knows_arrivals(const Profile& profile);
std::string why_not_text(const Profile& profile);
void name_sites(const DeviceProfile& device, const std::vector<IdleSite>& sites, Finding& finding);

// How long the profiler worked for itself, as evidence, where that is 1 % of the window.
void add_profiling(const DeviceProfile& device, Finding& finding);

// Of a finding about calls that wait: whether ranks that it does not name wait for their GPUs as
// much and go on at once, so that it is what the host does after the call.  By the host's calls
// alone it counts as if they did.
bool is_made_by_others(const Profile& profile, const Finding& finding);

// By how much clocks of other hosts were moved, as evidence.
void add_clocks(const Arrivals& arrivals, Finding& finding);
// How many collectives nothing is said of, as evidence.
void add_unknown(const Arrivals& arrivals, Finding& finding);

// "train.py(118): train_step"; else the name of the call with no file.
CodePlace place_of(Rank rank, const IdleSite& site);

}  // namespace traintrace
