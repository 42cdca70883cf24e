#include "analyzer/match/foreseen.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "analyzer/model/process/code_place.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// How many calls before `at` are like those before `earlier`.
size_t alike_before(const std::vector<Call>& calls, size_t at, size_t earlier) {
  size_t length = 0;
  while (length < earlier && length < kForeseenContext &&
         calls[at - 1 - length].key == calls[earlier - 1 - length].key) {
    ++length;
  }
  return length;
}

using Frames = std::vector<const PythonFrameText*>;

// Of the job's own code, outermost first.
Frames frames_of(const ProcessTrace& trace, const Call& call) {
  Frames frames;
  const auto stack = trace.stacks.find(call.operation->stack);
  if (stack == trace.stacks.end()) {
    return frames;
  }
  for (const PythonFrameText& frame : stack->second.python) {
    if (is_user_file(frame.file)) {
      frames.insert(frames.begin(), &frame);
    }
  }
  return frames;
}

// Where the job went back to a line further up, or to the same one: how deep in its calls, and the
// line.  The less, the greater the loop that began anew there.
using Return = std::pair<size_t, int>;

std::optional<Return> return_between(const Frames& before, const Frames& after) {
  size_t level = 0;
  const size_t both = std::min(before.size(), after.size());
  const auto is_same_function = [&] {
    return before[level]->file == after[level]->file &&
           before[level]->function == after[level]->function;
  };
  while (level < both && is_same_function() && before[level]->line == after[level]->line) {
    ++level;
  }
  if (level == both) {  // the same line anew
    return both == 0 ? std::nullopt : std::optional(Return(both - 1, after[both - 1]->line));
  }
  return is_same_function() && after[level]->line < before[level]->line
             ? std::optional(Return(level, after[level]->line))
             : std::nullopt;
}

// Of each call that has lines: how the job went back to reach it, from the one before that has.
class Returns {
 public:
  Returns(const ProcessTrace& trace, const Program& program, size_t end) {
    const Frames* before = nullptr;
    for (size_t i = 0; i < end; ++i) {
      const auto [own, is_new] = frames_.try_emplace(program.calls[i].operation->stack);
      if (is_new) {
        own->second = frames_of(trace, program.calls[i]);
      }
      if (own->second.empty()) {
        continue;
      }
      const auto found = before == nullptr ? std::nullopt : return_between(*before, own->second);
      if (found) {
        keys_[*found].insert(program.calls[i].key);
      }
      before = &own->second;
    }
  }

  bool are_known() const { return !keys_.empty(); }
  // The greatest loop began anew with such a call.
  bool begins_greatest(uint64_t key) const { return keys_.begin()->second.contains(key); }

 private:
  std::map<uint32_t, Frames> frames_;  // by stack
  std::map<Return, std::set<uint64_t>> keys_;
};

// Nothing that it called before is forgotten.
bool is_from_the_start(const ProcessTrace& trace) {
  return std::all_of(trace.communicators.begin(), trace.communicators.end(),
                     [](const CommunicatorText& text) {
                       return text.recent.empty() || text.recent.front().index == 0;
                     });
}

bool is_first_that_recurs(const Program& program, size_t at) {
  std::unordered_map<uint64_t, size_t> times;
  for (size_t i = 0; i < at; ++i) {
    ++times[program.calls[i].key];
  }
  const auto first = std::find_if(
      program.calls.begin(), program.calls.begin() + static_cast<ptrdiff_t>(at),
      [&](const Call& call) { return times[call.key] > 1 || call.key == program.calls[at].key; });
  return first != program.calls.begin() + static_cast<ptrdiff_t>(at) &&
         first->key == program.calls[at].key;
}

}  // namespace

std::vector<Call> foreseen(const Program& program, size_t more) {
  std::vector<Call> calls = program.calls;
  const size_t end = calls.size();
  size_t best = 0;
  size_t most = 0;
  for (size_t earlier = 1; earlier < end; ++earlier) {
    const size_t alike = alike_before(calls, end, earlier);
    if (alike >= std::max(most, kForeseenFrom)) {
      most = alike;
      best = earlier;
    }
  }
  for (size_t i = 0; best > 0 && i < more; ++i) {
    calls.push_back(calls[best + i]);
  }
  return calls;
}

bool begins_step(const ProcessTrace& trace, const Program& program, size_t at) {
  const uint64_t key = program.calls[at].key;
  const auto end = program.calls.begin() + static_cast<ptrdiff_t>(at);
  if (std::none_of(program.calls.begin(), end, [&](const Call& call) { return call.key == key; })) {
    return false;
  }
  if (const Returns returns(trace, program, at);
      returns.are_known() && !frames_of(trace, program.calls[at]).empty()) {
    return returns.begins_greatest(key);
  }
  return is_from_the_start(trace) && is_first_that_recurs(program, at);
}

}  // namespace traintrace
