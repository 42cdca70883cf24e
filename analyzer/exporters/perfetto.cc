#include "analyzer/exporters/perfetto.h"

#include <algorithm>

#include "analyzer/isolation/stage.h"

namespace traintrace {
namespace {

// When the records of a process end.
TimeNs end_of(const ExportedProcess& process) {
  TimeNs end = process.trace == nullptr ? 0 : process.trace->last_alive;
  if (process.timeline != nullptr) {
    for (const GpuWork& work : process.timeline->work) {
      end = std::max(end, process.timeline->base_ns + work.end_ns);
    }
  }
  return end;
}

// When the process entered the collective that the finding is about; 0: not kept, or none.
TimeNs entered(const ExportedProcess& process, const Finding& finding) {
  if (process.trace == nullptr || !finding.communicator || !finding.sequence) {
    return 0;
  }
  for (const CommunicatorText& communicator : process.trace->communicators) {
    for (const OperationText& operation : communicator.recent) {
      if (communicator.id == finding.communicator->id.value && operation.collective &&
          operation.sequence == *finding.sequence) {
        return operation.enter;
      }
    }
  }
  return 0;
}

PerfettoNotes notes_of(const Finding& finding) {
  PerfettoNotes notes = {{"code", std::string(finding.code)},
                         {"severity", name_of(finding.severity)},
                         {"certainty", name_of(finding.certainty)}};
  for (const std::string& line : finding.evidence) {
    notes.emplace_back("evidence", line);
  }
  for (const CodePlace& place : finding.where) {
    notes.emplace_back("where", place_text(place));
  }
  if (!finding.advice.empty()) {
    notes.emplace_back("advice", finding.advice);
  }
  return notes;
}

bool is_about(const Finding& finding, const ExportedProcess& process) {
  return std::any_of(process.ranks.begin(), process.ranks.end(),
                     [&](Rank rank) { return contains(finding.culprits, rank); });
}

// Each at its culprits, else on a track of its own, when it shows: as the collective was entered
// or, of anything else, at the end of the records.
class Markers {
 public:
  Markers(std::span<const ExportedProcess> processes, std::span<const Finding> findings,
          PerfettoWriter& out)
      : processes_(processes), findings_(findings), out_(out) {}

  void add(const ExportedProcess& process, uint64_t track) {
    uint64_t own = 0;
    for (const Finding& finding : findings_) {
      if (is_about(finding, process)) {
        own = own != 0 ? own : out_.track("findings", track);
        const TimeNs moment = entered(process, finding);
        out_.instant(own, moment != 0 ? moment : end_of(process), finding.title, notes_of(finding));
      }
    }
  }

  void add_others() {
    uint64_t track = 0;
    for (const Finding& finding : findings_) {
      if (std::any_of(processes_.begin(), processes_.end(),
                      [&](const ExportedProcess& each) { return is_about(finding, each); })) {
        continue;
      }
      TimeNs moment = 0;
      TimeNs end = 0;
      for (const ExportedProcess& process : processes_) {
        moment = std::max(moment, entered(process, finding));
        end = std::max(end, end_of(process));
      }
      track = track != 0 ? track : out_.track("findings", 0);
      out_.instant(track, moment != 0 ? moment : end, finding.title, notes_of(finding));
    }
  }

 private:
  std::span<const ExportedProcess> processes_;
  std::span<const Finding> findings_;
  PerfettoWriter& out_;
};

void add_process(const ExportedProcess& process, uint64_t track, const ReadEvents& read_events,
                 PerfettoWriter& out) {
  const Timeline* const timeline = process.timeline;
  const LaunchArrows arrows = timeline == nullptr ? LaunchArrows{} : launch_arrows(*timeline, out);
  const ProcessTrace* const trace =
      process.trace == nullptr ? nullptr : read_events(*process.trace);
  if (trace != nullptr) {
    add_calls(*trace, timeline, arrows, track, out);
  } else if (timeline != nullptr) {
    add_calls(*timeline, arrows, track, out);
  }
  if (timeline != nullptr) {
    add_work(*timeline, arrows, track, out);
  }
  if (trace != nullptr) {
    add_memory(*trace, track, out);
  }
  add_numbers(process, track, out);
}

}  // namespace

std::string perfetto_trace(std::span<const ExportedProcess> processes,
                           std::span<const Finding> findings, const ReadEvents& read_events) {
  PerfettoWriter out;
  Markers markers(processes, findings, out);
  markers.add_others();
  for (const ExportedProcess& process : processes) {
    const uint64_t track = out.process(process.name, process.pid);
    markers.add(process, track);
    run_stage("export of " + process.name, [&] { add_process(process, track, read_events, out); });
  }
  return out.finish();
}

}  // namespace traintrace
