// What findings about lost time have in common.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/detectors/latency.h"
#include "analyzer/thresholds.h"

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

// With code, severity, certainty, culprits (the ranks that lose it), `values` idle_ns, idle_percent
// and, where steps are known, idle_ns_per_step of the one that loses most, and a line of evidence
// for each.
Finding loss_finding(std::string_view code, const std::vector<LossOn>& losses);

// "the GPU of rank 0 is idle for 28.6 % of 996.5 ms", "the GPUs of ranks 0,1 are idle for up to
// ..".
std::string idle_text(const std::vector<LossOn>& losses);

// Whether that many gaps are a habit and not something that happened once: in at least half of the
// steps, and at least twice.
bool is_repeated(const DeviceProfile& device, size_t gaps);
// What is lost again and again in such gaps: none counts more than half of the steps have one of.
// One long gap is no habit, whatever is beside it.
int64_t repeated_ns(const DeviceProfile& device, std::vector<int64_t> gaps);
// The idle time of that cause, where enough of it to warn of is lost again and again; else 0.
int64_t repeated_loss(const DeviceProfile& device, IdleCause cause);
// Of launches that came too late, where so much is.
int64_t late_loss(const DeviceProfile& device, double share);

int64_t percent_of(const DeviceProfile& device, int64_t ns);  // of the window, rounded

// "28.6 % of 996.5 ms"
std::string share_text(const DeviceProfile& device, int64_t ns);
std::string ms_text(int64_t ns);

// The places that lose most of that cause, the first of each device as `where`, others as evidence.
void add_sites(const std::vector<LossOn>& losses, const std::function<bool(IdleCause)>& cause,
               Finding& finding);

// How long the profiler worked for itself, as evidence, where that is 1 % of the window.
void add_profiling(const DeviceProfile& device, Finding& finding);

// By how much clocks of other hosts were moved, as evidence.
void add_clocks(const Arrivals& arrivals, Finding& finding);
// How many collectives nothing is said of, as evidence.
void add_unknown(const Arrivals& arrivals, Finding& finding);

// "train.py(118): train_step"; else the name of the call with no file.
CodePlace place_of(Rank rank, const IdleSite& site);

}  // namespace traintrace
