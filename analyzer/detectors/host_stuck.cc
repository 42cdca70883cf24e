// A rank is blocked outside CUDA while the others wait for it.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang_finding.h"
#include "analyzer/model/host_stuck.h"
#include "analyzer/model/threads_now.h"

namespace traintrace {
namespace {

constexpr size_t kMostFrames = 8;
constexpr size_t kMostRanks = 8;

const char* advice_for(Waiting waiting) {
  switch (waiting) {
    case Waiting::kGil:
      return "another thread of that process holds the GIL: look at its stack";
    case Waiting::kLock:
      return "who holds that lock, and what does it wait for";
    case Waiting::kDataLoader:
    case Waiting::kQueue:
      return "the worker that should deliver is stuck or dead: look at the loader's processes";
    case Waiting::kFile:
    case Waiting::kCheckpoint:
      return "the file system does not answer, or somebody else holds that file";
    case Waiting::kStore:
    case Waiting::kSocket:
    case Waiting::kPipe:
      return "the other end does not answer: look at the process there";
    default:
      return "look at what that line waits for; no other rank does it";
  }
}

std::string frame_text(const FrameNow& frame) {
  return frame.file.empty() ? frame.function
                            : fmt::format("{} at {}:{}", frame.function, frame.file, frame.line);
}

void add_stack(Rank rank, const ThreadNow& thread, Finding& finding) {
  finding.evidence.push_back(fmt::format(
      "rank {}: {} thread {}{}", rank.value, thread.role.empty() ? thread.name : thread.role,
      doing_text(thread), thread.steady ? ", at the same place in two looks" : ""));
  const std::vector<FrameNow>& frames = thread.python.empty() ? thread.native : thread.python;
  for (size_t i = 0; i < std::min(frames.size(), kMostFrames); ++i) {
    finding.evidence.push_back("    " + frame_text(frames[i]));
  }
}

// Where they are stuck, then where the others wait.
void put_places(const Run& run, const Hang& hang, Finding& finding) {
  std::erase_if(finding.where,
                [&](const CodePlace& place) { return contains(hang.roots, place.rank); });
  std::vector<CodePlace> places;
  for (const Rank rank : hang.roots) {
    const ThreadNow* const thread = working_thread(trace_of(run, *state_of(run, rank)));
    if (const auto place = place_now(*thread, rank)) {
      places.push_back(*place);
    }
  }
  finding.where.insert(finding.where.begin(), places.begin(), places.end());
}

Finding finding_of(const Run& run, const Hang& hang) {
  Finding finding = hang_finding(run, hang, "host.stuck");
  const Rank first = hang.roots.front();
  const ThreadNow& thread = *working_thread(trace_of(run, *state_of(run, first)));
  const auto place = place_now(thread, first);
  finding.title =
      fmt::format("{} {} stuck outside CUDA: rank {} {}{}; {} in {}{}", ranks_text(hang.roots),
                  hang.roots.size() == 1 ? "is" : "are", first.value, doing_text(thread),
                  place ? " at " + place_text(*place) : "", waiting_text(run, hang),
                  operation_text(run, run.waits.waits[hang.wait]), behind_text(run, hang));
  const bool all_steady = std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank rank) {
    return working_thread(trace_of(run, *state_of(run, rank)))->steady;
  });
  finding.certainty =
      all_steady && !doubts_about(run, hang).any() ? Certainty::kProof : Certainty::kLikely;
  if (is_minority(hang)) {
    finding.culprits = hang.roots;
  } else {
    finding.title += "; as many do not wait as do, or more: nobody is blamed";
  }
  put_places(run, hang, finding);
  for (size_t i = 0; i < std::min(hang.roots.size(), kMostRanks); ++i) {
    add_stack(hang.roots[i], *working_thread(trace_of(run, *state_of(run, hang.roots[i]))),
              finding);
  }
  finding.advice = advice_for(thread.waiting);
  return finding;
}

}  // namespace

std::vector<Finding> find_stuck_hosts(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    if (is_stuck_on_host(run, hang)) {
      findings.push_back(finding_of(run, hang));
    }
  }
  return findings;
}

}  // namespace traintrace
