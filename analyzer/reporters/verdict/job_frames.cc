// The job's own frames around a place that a finding names.
#include <algorithm>
#include <set>

#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/comprehension.h"
#include "analyzer/model/process/threads_now.h"
#include "analyzer/reporters/verdict/card.h"

namespace traintrace {
namespace {

constexpr size_t kMostFrames = 32;

// Python's say all; else the native ones that were looked up.
std::vector<CodePlace> user_frames(const ProcessTrace& trace, Rank rank, const StackText& stack) {
  std::vector<CodePlace> frames;
  for (const PythonFrameText& frame : stack.python) {
    // Its caller is the function in which it stands, at the same line.
    const bool is_told = !frames.empty() && is_comprehension(frame.function);
    if (is_user_file(frame.file) && !is_told && frames.size() < kMostFrames) {
      frames.push_back({rank, frame.file, frame.line, frame.function, "python"});
    }
  }
  for (const uint64_t address : stack.native) {
    const auto code = frames.empty() || frames.front().language != "python"
                          ? trace.code.find(address)
                          : trace.code.end();
    if (code != trace.code.end() && is_user_file(code->second.file) &&
        frames.size() < kMostFrames) {
      frames.push_back({rank, code->second.file, code->second.line, code->second.function, "c++"});
    }
  }
  return frames;
}

std::vector<CodePlace> user_frames(const ThreadNow& thread, Rank rank) {
  std::vector<CodePlace> frames;
  for (const FrameNow& frame : thread.python) {
    if (is_user_file(frame.file) && (frames.empty() || !is_comprehension(frame.function))) {
      frames.push_back({rank, frame.file, frame.line, frame.function, "python"});
    }
  }
  return frames;
}

// Stacks that a finding may have been made of, the likeliest first.
std::vector<uint32_t> candidates(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  std::vector<uint32_t> stacks;
  if (const auto activity = activity_of(run, state)) {
    stacks.push_back(activity->stack);
  }
  for (const OutOfMemoryText& failure : trace.out_of_memory) {
    stacks.push_back(failure.stack);
  }
  for (const ThreadText& thread : trace.threads) {
    stacks.insert(stacks.end(), {thread.open[0].stack, thread.open[1].stack, thread.last_stack,
                                 thread.group_stack});
  }
  for (const CommunicatorText& communicator : trace.communicators) {
    for (auto own = communicator.recent.rbegin(); own != communicator.recent.rend(); ++own) {
      stacks.push_back(own->stack);
    }
  }
  for (const HostFunctionText& function : trace.host_functions) {
    stacks.push_back(function.stack);
  }
  for (const auto& [id, stack] : trace.stacks) {
    stacks.push_back(id);
  }
  return stacks;
}

bool same_place(const CodePlace& a, const CodePlace& b) {
  return a.file == b.file && a.line == b.line && a.function == b.function;
}

// From that place on; empty: that stack is of another one.
std::vector<CodePlace> frames_at(const ProcessTrace& trace, const CodePlace& place, uint32_t id) {
  const auto stack = trace.stacks.find(id);
  const auto own = user_place(trace, place.rank, id);
  if (stack == trace.stacks.end() || !own || !same_place(*own, place)) {
    return {};
  }
  std::vector<CodePlace> frames = user_frames(trace, place.rank, stack->second);
  // Before it are helpers that all calls of its kind share.
  frames.erase(frames.begin(), std::find_if(frames.begin(), frames.end(), [&](const auto& frame) {
                 return same_place(frame, place);
               }));
  return frames;
}

}  // namespace

std::vector<CodePlace> job_frames(const Run& run, const CodePlace& place) {
  const RankState* const state = state_of(run, place.rank);
  if (state == nullptr) {
    return {place};
  }
  const ProcessTrace& trace = trace_of(run, *state);
  if (place.stack != 0) {
    if (std::vector<CodePlace> frames = frames_at(trace, place, place.stack); !frames.empty()) {
      return frames;
    }
  }
  if (const ThreadNow* const thread = working_thread(run, *state)) {
    std::vector<CodePlace> frames = user_frames(*thread, place.rank);
    if (!frames.empty() && same_place(frames.front(), place)) {
      return frames;
    }
  }
  std::set<uint32_t> seen;
  for (const uint32_t id : candidates(run, *state)) {
    std::vector<CodePlace> frames =
        seen.insert(id).second ? frames_at(trace, place, id) : std::vector<CodePlace>();
    if (!frames.empty()) {
      return frames;
    }
  }
  return {place};
}

}  // namespace traintrace
