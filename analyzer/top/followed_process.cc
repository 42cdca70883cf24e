#include "analyzer/top/followed_process.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <tuple>

#include "analyzer/memory/blocks.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/reader/this_machine.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

bool is_query(const CallSchema& call) {
  return call.kind == "query" || call.kind == "comm-query";
}

std::string how_it_ended(const LiveSample& sample) {
  if (sample.exited != 0) {
    return fmt::format("exited with status {}", sample.exit_status);
  }
  if (sample.wait_status >= 0 && WIFSIGNALED(sample.wait_status)) {
    const char* const name = sigabbrev_np(WTERMSIG(sample.wait_status));
    return fmt::format("killed by {}{}", name == nullptr ? "signal " : "SIG",
                       name == nullptr ? std::to_string(WTERMSIG(sample.wait_status)) : name);
  }
  if (sample.wait_status >= 0 && WIFEXITED(sample.wait_status)) {
    return fmt::format("exited with status {}", WEXITSTATUS(sample.wait_status));
  }
  return "is gone, without an exit record";
}

}  // namespace

TimeNs now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool FollowedProcess::look(TimeNs now) {
  main = newest_in = nullptr;
  operations.clear();
  newest = {};
  std::optional<LiveSample> seen = process.sample();
  if (!seen) {
    return false;
  }
  sample = std::move(*seen);
  choose_communicators();
  note_motion();
  moved = std::min(moved, now);
  return true;
}

void FollowedProcess::choose_communicators() {
  for (const LiveCommunicator& one : sample.communicators) {
    if (one.size != 1 && !one.ended && one.collectives > 0 &&
        (main == nullptr ||
         std::tuple(one.size, one.collectives) > std::tuple(main->size, main->collectives))) {
      main = &one;
    }
    if (one.last != 0 && (newest_in == nullptr || one.last > newest_in->last)) {
      newest_in = &one;
    }
  }
  if (main != nullptr) {
    operations = process.operations(*main);
  }
  if (newest_in != nullptr) {
    const std::vector<LiveOperation> own =
        newest_in == main ? operations : process.operations(*newest_in);
    if (!own.empty()) {
      newest = own.back();
    }
  }
}

// Polling is no motion.
void FollowedProcess::note_motion() {
  uint64_t written = 0;
  TimeNs newest_call = newest.enter;
  for (const LiveThread& thread : sample.threads) {
    written += thread.events;
    newest_call = std::max(
        {newest_call, thread.open.time, thread.queries == 0 ? thread.last.time : TimeNs{0}});
  }
  if (moved == 0) {
    moved = newest_call;
  } else if (written != events) {
    moved = std::max({moved, newest_call, now_ns()});
  }
  events = written;
}

// That of the job's own code, as far as can be told; else the one heard of last.
const LiveThread* FollowedProcess::working_thread() const {
  const auto key = [&](const LiveThread& thread) {
    const LiveCall& call = thread.open.time != 0 ? thread.open : thread.last;
    const auto place = places.find(call.stack);
    const int known = place == places.end() ? 1 : place->second.has_value() ? 2 : 0;
    return std::tuple(known, std::max(thread.open.time, thread.last.time));
  };
  const auto best =
      std::max_element(sample.threads.begin(), sample.threads.end(),
                       [&](const LiveThread& a, const LiveThread& b) { return key(a) < key(b); });
  return best == sample.threads.end() ? nullptr : &*best;
}

bool FollowedProcess::ended_or_silent(TimeNs now, RankView& view) const {
  if (sample.exited != 0 || sample.gone) {
    view.state = LiveState::kEnded;
    view.since = sample.exited != 0 ? sample.exited : sample.last_alive;
    view.doing = how_it_ended(sample);
    return true;
  }
  if (elapsed(sample.last_alive, now) < kDeadAfter) {
    return false;
  }
  view.since = sample.last_alive;
  const std::optional<bool> running = is_running(process.header());
  const Halt halt = running == true ? halt_of(process.header().pid) : Halt::kNot;
  if (running == false) {
    view.state = LiveState::kEnded;
    view.doing = how_it_ended(sample);
  } else if (halt != Halt::kNot) {
    view.state = LiveState::kStopped;
    view.doing = halt == Halt::kTraced   ? "held by a debugger"
                 : halt == Halt::kFrozen ? "its cgroup is frozen"
                                         : "stopped by a signal";
  } else {
    view.state = LiveState::kSilent;
    view.doing = sample.is_copy ? "seen through a copy of its trace" : "its trace is not written";
  }
  return true;
}

RankView FollowedProcess::view(TimeNs now, TimeNs blocked_after, int world_size) {
  RankView view = identity;
  const LiveThread* const thread = working_thread();
  const LiveCall call = thread == nullptr        ? LiveCall()
                        : thread->open.time != 0 ? thread->open
                                                 : thread->last;
  view.stack = call.stack;
  if (newest_in != nullptr && newest.enter != 0) {
    view.collective = process.call(newest.call).name;
    view.communicator = !newest_in->name.empty()        ? newest_in->name
                        : newest_in->size == world_size ? "all ranks"
                        : newest_in->size > 0           ? fmt::format("{} ranks", newest_in->size)
                                                        : "?";
    view.sequence = newest.sequence;
    view.entered = newest.enter;
    view.pending = !newest.finished;
  }
  for (const LiveMemory& memory : sample.memory) {
    view.allocated = sum_of(view.allocated, memory.allocated);
    view.reserved = sum_of(view.reserved, memory.reserved);
    view.peak = sum_of(view.peak, memory.peak);
  }
  first_allocated = first_allocated ? first_allocated : view.allocated;
  view.growth = static_cast<int64_t>(view.allocated - *first_allocated);
  view.steps_ns = steps.lengths();
  view.step_ns = view.steps_ns.empty() ? 0 : view.steps_ns.back();
  view.step = steps.number();
  if (ended_or_silent(now, view) || elapsed(moved, now) < blocked_after) {
    return view;
  }
  view.since = moved;
  const bool polls = thread != nullptr && thread->queries > 0 &&
                     is_query(process.call(call.call)) && elapsed(call.time, now) < kPollsLately;
  if (thread != nullptr && thread->open.time != 0) {
    view.state = LiveState::kBlocked;
    view.doing = "in " + process.call(call.call).name;
  } else if (polls) {
    view.state = LiveState::kBlocked;
    view.doing = "polls " + process.call(call.call).name;
  } else {
    view.state = LiveState::kOnHost;
    view.doing = "no call of CUDA or NCCL";
  }
  return view;
}

}  // namespace traintrace
