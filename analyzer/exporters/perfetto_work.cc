#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "analyzer/exporters/perfetto.h"
#include "analyzer/timeline/collectives/collective_note.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {
namespace {

std::string stream_name(const GpuWork& work) {
  const std::string device = work.device < 0 ? "GPU" : fmt::format("GPU {}", work.device);
  return work.stream < 0 ? device : fmt::format("{} stream {}", device, work.stream);
}

std::string communicator_name(const Timeline& timeline, const CollectiveNote& note) {
  return note.group == kNoName ? "communicators" : "communicator " + timeline.names[note.group];
}

// "ncclAllReduce #12"
std::string collective_name(const Timeline& timeline, const CollectiveNote& note,
                            const GpuWork& work) {
  const uint32_t name = note.operation == kNoName ? work.name : note.operation;
  return timeline.names[name] + (note.sequence < 0 ? "" : fmt::format(" #{}", note.sequence));
}

PerfettoNotes notes_of(const CollectiveNote& note) {
  PerfettoNotes notes;
  if (note.group_size >= 0) {
    notes.emplace_back("ranks", std::to_string(note.group_size));
  }
  if (note.bytes >= 0) {
    notes.emplace_back("bytes", std::to_string(note.bytes));
  }
  return notes;
}

void add_steps(const Timeline& timeline, uint64_t process, PerfettoWriter& out) {
  std::vector<PerfettoSlice> steps;
  for (size_t i = 0; i < timeline.step_starts.size(); ++i) {
    const bool last = i + 1 == timeline.step_starts.size();
    steps.push_back({timeline.base_ns + timeline.step_starts[i],
                     last ? PerfettoSlice::kOpen : timeline.base_ns + timeline.step_starts[i + 1],
                     fmt::format("step {}", step_number(timeline, i)),
                     {}});
  }
  if (!steps.empty()) {
    out.slices("steps", process, std::move(steps));
  }
}

}  // namespace

LaunchArrows launch_arrows(const Timeline& timeline, PerfettoWriter& out) {
  std::unordered_map<uint64_t, const HostCall*> launches;
  for (const HostCall& call : timeline.calls) {
    if (call.correlation != 0) {
      launches[call.correlation] = &call;
    }
  }
  LaunchArrows arrows;
  uint64_t number = out.arrows(timeline.work.size());
  for (const GpuWork& work : timeline.work) {
    const auto launch = launches.find(work.correlation);
    arrows.to.push_back(launch == launches.end() ? 0 : number);
    if (launch != launches.end()) {
      const HostCall& call = *launch->second;
      arrows.from[{call.thread, timeline.base_ns + call.start_ns}].push_back(number);
    }
    ++number;
  }
  return arrows;
}

void add_work(const Timeline& timeline, const LaunchArrows& arrows, uint64_t process,
              PerfettoWriter& out) {
  std::map<std::pair<int32_t, int32_t>, std::vector<PerfettoSlice>> streams;
  std::map<std::pair<int32_t, int32_t>, std::string> names;
  std::map<std::string, std::vector<PerfettoSlice>> communicators;
  for (size_t i = 0; i < timeline.work.size(); ++i) {
    const GpuWork& work = timeline.work[i];
    const TimeNs start = timeline.base_ns + work.start_ns;
    const TimeNs end = timeline.base_ns + work.end_ns;
    names[{work.device, work.stream}] = stream_name(work);
    streams[{work.device, work.stream}].push_back(
        {start, end, timeline.names[work.name], {}, arrows.to[i]});
    const CollectiveNote* note = work.kind == WorkKind::kCommunication && work.correlation != 0
                                     ? collective_note(timeline, work.correlation)
                                     : nullptr;
    if (note != nullptr) {
      communicators[communicator_name(timeline, *note)].push_back(
          {start, end, collective_name(timeline, *note, work), {}, 0, notes_of(*note)});
    }
  }
  add_steps(timeline, process, out);
  for (auto& [stream, slices] : streams) {
    out.slices(names[stream], process, std::move(slices));
  }
  for (auto& [name, slices] : communicators) {
    out.slices(name, process, std::move(slices));
  }
}

}  // namespace traintrace
