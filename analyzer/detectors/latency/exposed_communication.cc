// Collectives during which nothing is computed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/detectors/lost_time/launch_places.h"
#include "analyzer/detectors/lost_time/small_collectives.h"
#include "analyzer/detectors/lost_time/time_account.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/collectives/collective_note.h"
#include "analyzer/timeline/collectives/messages.h"

namespace traintrace {
namespace {

void add_per_step(const DeviceProfile& device, const char* key, int64_t ns, Finding& finding) {
  finding.values.emplace_back(key, ns);
  if (device.steps > 1) {
    finding.values.emplace_back(std::string(key) + "_per_step", device.per_step(ns));
  }
}

void add_blocking(const DeviceProfile& device, Finding& finding) {
  if (!device.blocking_communication_ns) {
    return;
  }
  const int64_t ns = *device.blocking_communication_ns;
  add_per_step(device, "blocking_ns", ns, finding);
  finding.evidence.push_back(fmt::format(
      "rank {}: for {} of {} of exposed communication the next kernel that computes had been "
      "launched and waited for it",
      device.rank.value, ms_text(ns), ms_text(device.times.exposed_communication_ns)));
}

// "ncclAllReduce on dp"; messages have no one name.
std::string name_of(const Timeline& timeline, const GpuWork& work) {
  const CollectiveNote* const note = collective_note(timeline, work.correlation);
  if (note == nullptr || note->operation == kNoName) {
    return messages_of(timeline, work.correlation).empty() ? timeline.names[work.name]
                                                           : "sending and receiving";
  }
  const std::string& operation = timeline.names[note->operation];
  return note->group == kNoName ? operation : operation + " on " + timeline.names[note->group];
}

// Of the loop, in Timeline::work.
std::vector<size_t> communication_of(const Profile& profile, const DeviceProfile& device) {
  const std::vector<GpuWork>& work = profile.timelines[device.timeline].work;
  std::vector<size_t> result;
  for (size_t i = 0; i < work.size(); ++i) {
    if (work[i].device == device.device && work[i].kind == WorkKind::kCommunication &&
        work[i].start_ns >= device.loop.begin_ns) {
      result.push_back(i);
    }
  }
  return result;
}

// Which operations on which communicators; kernels side by side count in both.
void add_operations(const Profile& profile, const DeviceProfile& device, Finding& finding) {
  const Timeline& timeline = profile.timelines[device.timeline];
  std::vector<Span> computing;
  std::map<std::string, std::vector<Span>> operations;
  for (const GpuWork& work : timeline.work) {
    const Span span = {work.start_ns, work.end_ns};
    if (work.device != device.device || work.kind == WorkKind::kMemory) {
      continue;
    }
    (work.kind == WorkKind::kCompute ? computing : operations[name_of(timeline, work)])
        .push_back(span);
  }
  const Spans computed = united(std::move(computing));
  std::vector<std::pair<int64_t, std::string>> exposed;
  for (auto& [name, spans] : operations) {
    const Spans all = united(std::move(spans));
    exposed.emplace_back(length_ns(all) - common_ns(all, computed), name);
  }
  std::stable_sort(exposed.begin(), exposed.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  constexpr size_t kMost = 3;
  exposed.resize(std::min(exposed.size(), kMost));
  for (const auto& [ns, name] : exposed) {
    if (ns > 0) {
      finding.evidence.push_back(
          fmt::format("rank {}: {} of {}", device.rank.value, ms_text(ns), name));
    }
  }
}

// What the schedule leaves idle beside so much computing, where that is what it can be; else 0.
double scheduled_ns(const Profile& profile, const DeviceProfile& device) {
  const std::optional<PipelineStage>& stage = profile.stages[device.timeline];
  if (!device.pipeline_bubble_ns || !stage || !stage->micro_batches) {
    return 0;
  }
  const double share = schedule_share(stage->stages, *stage->micro_batches);
  const double expected = static_cast<double>(device.times.compute_ns) * share / (1 - share);
  return static_cast<double>(*device.pipeline_bubble_ns) < kBubbleAlike * expected ? 0 : expected;
}

void add_schedule(const PipelineStage& stage, const DeviceProfile& device, double expected,
                  Finding& finding) {
  if (expected <= 0) {
    return;
  }
  const int64_t number = *stage.micro_batches;
  const double share = schedule_share(stage.stages, number);
  const auto bubble = static_cast<double>(*device.pipeline_bubble_ns);
  finding.values.emplace_back("schedule_percent", std::llround(100 * share));
  finding.evidence.push_back(
      fmt::format("{} stages with {} micro-batches in each step are idle for {:.1f} % by the "
                  "schedule alone (GPipe and 1F1B), with {} they would be for {:.1f} %",
                  stage.stages, number, 100 * share, 2 * number,
                  100 * schedule_share(stage.stages, 2 * number)));
  if (expected < kBubbleAlike * bubble) {
    finding.evidence.push_back(
        fmt::format("rank {}: {} of the bubble are more than the schedule explains: stages that "
                    "take unequally long, or what is sent takes long",
                    device.rank.value, ms_text(std::llround(bubble - expected))));
  }
}

// With so many micro-batches a pipeline is as it is meant to be: only what is beside the schedule
// is worth a warning.
bool is_as_scheduled(const Profile& profile, const LossOn& loss) {
  const DeviceProfile& device = *loss.device;
  const double expected = scheduled_ns(profile, device);
  if (expected <= 0) {
    return false;
  }
  const PipelineStage& stage = *profile.stages[device.timeline];
  return *stage.micro_batches >= kEnoughMicroBatches * stage.stages &&
         device.share(loss.ns - std::llround(expected)) < kWarnShare;
}

void add_bubble(const Profile& profile, const LossOn& loss, Finding& finding) {
  const DeviceProfile& device = *loss.device;
  if (!device.pipeline_bubble_ns) {
    return;
  }
  const PipelineStage& stage = *profile.stages[device.timeline];
  const int64_t ns = *device.pipeline_bubble_ns;
  add_per_step(device, "bubble_ns", ns, finding);
  finding.evidence.push_back(
      fmt::format("rank {} is stage {} of {} of a pipeline: {} are its bubble, in which nothing "
                  "was computed for want of a neighbouring stage",
                  device.rank.value, stage.stage + 1, stage.stages, share_text(device, ns)));
  add_schedule(stage, device, scheduled_ns(profile, device), finding);
  if (2 * ns > loss.ns) {
    finding.advice =
        "use more micro-batches in each step, or a schedule that interleaves stages; make stages "
        "take equally long";
  }
}

}  // namespace

std::vector<Finding> find_exposed_communication(const Profile& profile) {
  const std::vector<LossOn> losses =
      losses_of(profile, kWarnShare, [&](const DeviceProfile& device) {
        if (!is_attributed(device)) {  // where work is missing, all communication looks exposed
          return int64_t{0};
        }
        // Those have a finding of their own.
        int64_t ns =
            device.times.exposed_communication_ns - small_collectives(profile, device).whole_ns;
        const CollectiveTimes times = collective_times(profile, device);
        // Waiting is another matter.
        ns = std::max<int64_t>(0, ns - times.waited_ns) - times.first_wait_ns - times.unknown_ns;
        // Communication of another GPU, for which this one had nothing else to do.
        return ns + device.idle_for(IdleCause::kCommunicationWait);
      });
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding("latency.exposed-communication", losses);
  const DeviceProfile& worst = *losses.front().device;
  const bool sure = std::all_of(
      profile.groups.begin(), profile.groups.end(),
      [](const Arrivals& arrivals) { return arrivals.usable() && arrivals.contradicted == 0; });
  finding.certainty = sure ? Certainty::kProof : Certainty::kLikely;
  finding.title = fmt::format("{} of {} is communication beside which nothing is computed",
                              share_text(worst, losses.front().ns), ranks_text(finding.culprits));
  finding.culprits.clear();
  if (std::all_of(losses.begin(), losses.end(),
                  [&](const LossOn& loss) { return is_as_scheduled(profile, loss); })) {
    finding.severity = Severity::kInfo;
  }
  const std::optional<int64_t> overlap = worst.times.overlap_percent_e4();
  finding.values = {{"exposed_ns", losses.front().ns},
                    {"exposed_percent", percent_of(worst, losses.front().ns)},
                    {"communication_ns", worst.times.communication_ns}};
  if (overlap) {
    finding.values.emplace_back("overlap_percent", (*overlap + 5000) / 10000);
  }
  if (worst.steps > 1) {
    finding.values.emplace_back("exposed_ns_per_step", worst.per_step(losses.front().ns));
  }
  if (!knows_arrivals(profile)) {
    finding.evidence.push_back("how much of it is waiting for other ranks is unknown: " +
                               why_not_text(profile));
  }
  finding.advice =
      "start collectives earlier (gradient buckets, prefetching), or give them less to carry";
  for (const LossOn& loss : losses) {
    name_loss(*loss.device, kExposedLoss, loss.ns, finding);
    name_loss(*loss.device, static_cast<size_t>(IdleCause::kCommunicationWait),
              loss.device->idle_for(IdleCause::kCommunicationWait), finding);
  }
  add_operations(profile, worst, finding);
  add_launch_places(
      worst, launch_places(profile.timelines[worst.timeline], communication_of(profile, worst)),
      finding);
  add_blocking(worst, finding);
  add_bubble(profile, losses.front(), finding);
  return {finding};
}

}  // namespace traintrace
