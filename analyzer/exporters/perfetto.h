// Runs for Perfetto's viewer (ui.perfetto.dev).
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/exporters/exported_process.h"
#include "analyzer/exporters/perfetto_writer.h"
#include "analyzer/model/divergence/narrow_divergences.h"

namespace traintrace {

// Each process with its threads, what it did on GPUs and communicators, counters of its memory and
// of the numbers that it recorded, and what is found about it.  `read_events` gives a process with
// all its events, until the next call.
std::string perfetto_trace(std::span<const ExportedProcess> processes,
                           std::span<const Finding> findings, const ReadEvents& read_events);

// On each device what is in use, by whose it is, and what PyTorch's allocator holds; and when
// memory ran out.  `process`: its track.
void add_memory(const ProcessTrace& trace, uint64_t process, PerfettoWriter& out);

// Counters of the numbers of `process`, and slices where they are not finite.  `track`: the
// process's.
void add_numbers(const ExportedProcess& process, uint64_t track, PerfettoWriter& out);

// Arrows from launches to what they launched, one for each piece of work whose launch is known.
struct LaunchArrows {
  // By thread (index in Timeline::threads) and start of the call in ns since the epoch.
  std::map<std::pair<uint32_t, TimeNs>, std::vector<uint64_t>> from;
  std::vector<uint64_t> to;  // of each piece of work; 0: none
};
LaunchArrows launch_arrows(const Timeline& timeline, PerfettoWriter& out);

// Streams, communicators, and steps that the job marked.
void add_work(const Timeline& timeline, const LaunchArrows& arrows, uint64_t process,
              PerfettoWriter& out);
// The calls that a timeline keeps.
void add_calls(const Timeline& timeline, const LaunchArrows& arrows, uint64_t process,
               PerfettoWriter& out);
// All calls that were recorded.  `timeline`: what `arrows` are about; may be null.
void add_calls(const ProcessTrace& trace, const Timeline* timeline, const LaunchArrows& arrows,
               uint64_t process, PerfettoWriter& out);

}  // namespace traintrace
