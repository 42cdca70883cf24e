// A rank is blocked outside CUDA while the others wait for it.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/blame.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/idle_host.h"
#include "analyzer/model/process/threads_now.h"
#include "analyzer/model/waiting/hang_cause.h"
#include "analyzer/model/waiting/host_stuck.h"

namespace traintrace {
namespace {

constexpr ptrdiff_t kMostFrames = 8;
const char* advice_for(Waiting waiting) {
  switch (waiting) {
    case Waiting::kGil:
      return "another thread of that process holds the GIL: `traintrace attach` on its host prints "
             "the stack of each";
    case Waiting::kLock:
      return "find out which thread holds that lock, and why it keeps it: `traintrace attach` on "
             "its "
             "host prints the stack of each; it may be this one";
    case Waiting::kCondition:
      return "find out which thread should signal it, and why it does not: `traintrace attach` on "
             "its "
             "host prints the stack of each";
    case Waiting::kThread:
      return "find out what the thread does that should end: `traintrace attach` on its host "
             "prints "
             "the stack of each";
    case Waiting::kDataLoader:
    case Waiting::kQueue:
      return "the worker that should deliver is stuck or dead: look at the loader's processes";
    case Waiting::kRuns:
      return "an endless loop, or a long computation that the others do not have: look again later";
    case Waiting::kFile:
    case Waiting::kCheckpoint:
      return "the file system does not answer, or another process holds that file";
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

void add_frames(const ThreadNow& thread, Finding& finding) {
  const std::vector<FrameNow>& frames = thread.python.empty() ? thread.native : thread.python;
  const auto user = std::find_if(frames.begin(), frames.end(), [](const FrameNow& frame) {
    return !frame.file.empty() && is_user_file(frame.file);
  });
  // Libraries may go deep before the user's line comes.
  const ptrdiff_t own = user == frames.end() ? 0 : user - frames.begin();
  const ptrdiff_t begin = std::max<ptrdiff_t>(0, own - kMostFrames / 2);
  const ptrdiff_t end = std::min(begin + kMostFrames, std::ssize(frames));
  for (ptrdiff_t i = begin; i < end; ++i) {
    finding.evidence.push_back("    " + frame_text(frames[static_cast<size_t>(i)]));
  }
}

void add_stack(Rank rank, const ThreadNow& thread, Finding& finding) {
  finding.evidence.push_back(fmt::format(
      "rank {}: {} thread {}{}", rank.value, thread.role.empty() ? thread.name : thread.role,
      doing_text(thread), thread.steady ? ", at the same place in two samples" : ""));
  add_frames(thread, finding);
}

// What its child processes do, as far as that is not to wait for work themselves.
void add_children(Rank rank, const ProcessTrace& trace, Finding& finding) {
  size_t shown = 0;
  for (const ThreadNow& child : trace.now) {
    const bool idle = child.waiting == Waiting::kDataLoader || child.waiting == Waiting::kQueue;
    if (child.pid == 0 || idle || child.role.empty() || ++shown > kEvidenceLines) {
      continue;
    }
    finding.evidence.push_back(fmt::format("rank {}: its {}, process {}, {}", rank.value,
                                           child.role, child.pid, doing_text(child)));
    add_frames(child, finding);
  }
}

const ThreadNow& working_thread_of(const Run& run, Rank rank) {
  return *working_thread(run, *state_of(run, rank));
}

// Where they are stuck, then where the others wait.
void put_places(const Run& run, const Hang& hang, const Ranks& blamed, Finding& finding) {
  std::erase_if(finding.where,
                [&](const CodePlace& place) { return contains(hang.roots, place.rank); });
  std::vector<CodePlace> places;
  Ranks order = blamed;
  std::copy_if(hang.roots.begin(), hang.roots.end(), std::back_inserter(order),
               [&](Rank rank) { return !contains(blamed, rank); });
  for (const Rank rank : order) {
    if (const auto place = place_now(working_thread_of(run, rank), rank)) {
      places.push_back(*place);
    }
  }
  finding.where.insert(finding.where.begin(), places.begin(), places.end());
}

// It waits for somebody else, who may be another rank.
bool may_wait_for_another(const ThreadNow& thread) {
  return thread.waiting == Waiting::kStore || thread.waiting == Waiting::kSocket ||
         thread.waiting == Waiting::kPipe;
}

// Those that nobody else is known to hold up; all, where each of them waits for somebody.
Ranks own_reasons(const Run& run, const Hang& hang) {
  Ranks own;
  std::copy_if(hang.roots.begin(), hang.roots.end(), std::back_inserter(own),
               [&](Rank rank) { return !may_wait_for_another(working_thread_of(run, rank)); });
  return own.empty() ? hang.roots : own;
}

// "rank 2 is stuck outside CUDA", "rank 2 is busy outside CUDA"
std::string state_text(const Run& run, const Ranks& ranks) {
  const bool all_run = std::all_of(ranks.begin(), ranks.end(), [&](Rank rank) {
    return working_thread_of(run, rank).waiting == Waiting::kRuns;
  });
  return fmt::format("{} {} {} outside CUDA", ranks_text(ranks), ranks.size() == 1 ? "is" : "are",
                     all_run ? "busy" : "stuck");
}

Certainty certainty_of(const Run& run, const Hang& hang, const Ranks& blamed) {
  const bool sure =
      blamed.size() == hang.roots.size() &&
      std::all_of(blamed.begin(), blamed.end(), [&](Rank rank) {
        return cannot_go_on(trace_of(run, *state_of(run, rank)), working_thread_of(run, rank));
      });
  return sure && !doubts_about(run, hang).any() ? Certainty::kProof : Certainty::kLikely;
}

void add_stacks(const Run& run, const Hang& hang, const Ranks& blamed, Finding& finding) {
  for (size_t i = 0; i < std::min(blamed.size(), kEvidenceLines); ++i) {
    if (trace_of(run, *state_of(run, blamed[i])).running_now != true) {
      finding.evidence.push_back(fmt::format(
          "rank {} was looked at when a communicator was aborted, at {}", blamed[i].value,
          run_time(run, trace_of(run, *state_of(run, blamed[i])).looked)));
    }
    add_stack(blamed[i], working_thread_of(run, blamed[i]), finding);
    add_children(blamed[i], trace_of(run, *state_of(run, blamed[i])), finding);
  }
  for (const Rank rank : hang.roots) {
    if (!contains(blamed, rank)) {
      finding.evidence.push_back(fmt::format("rank {} is not blamed: it {}, perhaps for {}",
                                             rank.value, doing_text(working_thread_of(run, rank)),
                                             ranks_text(blamed)));
    }
  }
}

Finding found_by_look(const Run& run, const Hang& hang) {
  Finding finding = hang_finding(run, hang, "host.stuck");
  const Ranks blamed = own_reasons(run, hang);
  const Rank first = blamed.front();
  const ThreadNow& thread = working_thread_of(run, first);
  const auto place = place_now(thread, first);
  finding.title =
      fmt::format("{}: {} {}{}; {} in {}{}", state_text(run, blamed),
                  blamed.size() == 1 ? "it" : ranks_text({first}), doing_text(thread),
                  place ? " at " + place_text(*place) : "", waiting_text(run, hang),
                  operation_text(run, run.waits.waits[hang.wait]), further_text(run, hang));
  finding.certainty = certainty_of(run, hang, blamed);
  if (blamed.size() < hang.roots.size()) {
    finding.culprits = blamed;
  } else {
    blame_missing_roots(run, hang, finding);
  }
  put_places(run, hang, blamed, finding);
  add_stacks(run, hang, blamed, finding);
  finding.advice = advice_for(thread.waiting);
  return finding;
}

// Nobody looked at the stacks, but nothing is under way there.
Finding found_idle(const Run& run, const Hang& hang) {
  Finding finding = hang_finding(run, hang, "host.stuck");
  const bool one = hang.roots.size() == 1;
  finding.title = fmt::format(
      "{} {} stuck on the host, outside NCCL: all that {} issued is finished, and nothing came "
      "after it; {} in {}{}",
      ranks_text(hang.roots), one ? "is" : "are", one ? "it" : "they", waiting_text(run, hang),
      operation_text(run, run.waits.waits[hang.wait]), further_text(run, hang));
  finding.certainty = Certainty::kLikely;
  blame_missing_roots(run, hang, finding);
  finding.evidence.emplace_back("where they are stuck is not seen: no stack was taken");
  finding.advice =
      "look at the stacks of that process (traintrace attach, py-spy): a lock, the GIL, a data "
      "loader, a file, or a computation that no other rank does";
  return finding;
}

}  // namespace

std::vector<Finding> find_stuck_hosts(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    const bool looked = is_stuck_on_host(run, hang);
    if ((looked || is_idle(run, hang)) && cause_of(run, hang) == Cause::kNotSeen) {
      findings.push_back(looked ? found_by_look(run, hang) : found_idle(run, hang));
    }
  }
  return findings;
}

}  // namespace traintrace
