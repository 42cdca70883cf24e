// What is found in timelines (PyTorch's profiler, CUPTI): where the time of the GPUs went.  Each
// detector looks at a profile and at nothing else.
#pragma once

#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/timeline/profile.h"

namespace traintrace {

using ProfileDetector = std::vector<Finding> (*)(const Profile&);

// One file each, named as its code: latency/host_bound.cc.
std::vector<Finding> find_data_starvation(const Profile& profile);
std::vector<Finding> find_host_bound(const Profile& profile);
std::vector<Finding> find_sync_in_loop(const Profile& profile);
std::vector<Finding> find_pageable_copies(const Profile& profile);
std::vector<Finding> find_default_stream(const Profile& profile);
std::vector<Finding> find_harmless_sync(const Profile& profile);
std::vector<Finding> find_implicit_sync(const Profile& profile);
std::vector<Finding> find_exposed_communication(const Profile& profile);
std::vector<Finding> find_exposed_copies(const Profile& profile);
std::vector<Finding> find_waiting_collectives(const Profile& profile);
std::vector<Finding> find_entry_skew(const Profile& profile);
std::vector<Finding> find_stragglers(const Profile& profile);
std::vector<Finding> find_straggler_stages(const Profile& profile);
std::vector<Finding> find_late_entries(const Profile& profile);  // by the host's calls alone
std::vector<Finding> find_rotating_stall(const Profile& profile);
std::vector<Finding> find_small_collectives(const Profile& profile);
std::vector<Finding> find_slow_device(const Profile& profile);
std::vector<Finding> find_step_regression(const Profile& profile);
// Where steps are slower for a while, and not to the end.
std::vector<Finding> find_slow_stretch(const Profile& profile);
std::vector<Finding> find_slow_kernel_path(const Profile& profile);
std::vector<Finding> find_graph_gaps(const Profile& profile);
std::vector<Finding> find_cpu_contention(const Profile& profile);
std::vector<Finding> find_full_queues(const Profile& profile);
std::vector<Finding> find_event_spin(const Profile& profile);
std::vector<Finding> find_pauses(const Profile& profile);
std::vector<Finding> find_lazy_loads(const Profile& profile);
std::vector<Finding> find_incomplete_timeline(const Profile& profile);
std::vector<Finding> find_missing_work(const Profile& profile);
// Profiles of which nothing says which rank they are of.
std::vector<Finding> find_unknown_ranks(const Profile& profile);

// Before that nothing is wrong, or after it, where only calls say so.
enum class Stands : uint8_t { kFirst, kLast };
// What costs much is said with it, although it is no habit or as it is meant to be.  False: all
// that `findings` name is little.
bool say_most_lost(const Profile& profile, const std::vector<Finding>& findings, Stands stands,
                   Finding& summary);

// Whether it did so: a pause of most of the window is no habit, and no health either.
bool says_what_is_lost(const Finding& summary);

// Where the profiler itself took a share of a GPU's time that would be worth a warning, as
// evidence.
void add_profiling(const Profile& profile, Finding& summary);

// The same for timelines by the host's calls alone, where there is no timeline of the GPU: only
// what these prove, and no summary.
std::vector<Finding> find_by_host(const Profile& profile);

// What all of them find, in the order of the report; where that is nothing at warning or above, one
// run.healthy.
std::vector<Finding> find_in_profile(const Profile& profile);

}  // namespace traintrace
