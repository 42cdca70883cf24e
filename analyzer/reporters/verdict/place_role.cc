#include "analyzer/reporters/verdict/place_role.h"

#include <algorithm>
#include <string_view>

#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/threads_now.h"

namespace traintrace {
namespace {

bool is_same_line(const CodePlace& a, const CodePlace& b) {
  return a.file == b.file && a.line == b.line && a.function == b.function;
}

// Calls of one rank that were made at `place`.
class CallsAt {
 public:
  CallsAt(const ProcessTrace& trace, const CodePlace& place) : trace_(trace), place_(place) {}

  bool made(uint32_t stack) const {
    const auto at = user_place(trace_, place_.rank, stack);
    return at && is_same_line(*at, place_);
  }

  std::string allocation() const {
    const auto is_here = [&](const auto& block) { return made(block.stack); };
    return std::any_of(trace_.allocations.begin(), trace_.allocations.end(), is_here) ||
                   std::any_of(trace_.out_of_memory.begin(), trace_.out_of_memory.end(),
                               [&](const OutOfMemoryText& failure) {
                                 return std::any_of(failure.held.begin(), failure.held.end(),
                                                    is_here);
                               }) ||
                   std::any_of(trace_.tensor_blocks.begin(), trace_.tensor_blocks.end(), is_here)
               ? "allocated at"
               : "";
  }

  // The one that the finding is about, else the newest.
  std::string operation(const Finding& finding) const {
    const OperationText* best = nullptr;
    bool best_is_meant = false;
    for (const CommunicatorText& communicator : trace_.communicators) {
      for (const OperationText& each : communicator.recent) {
        const bool meant = finding.communicator &&
                           communicator.id == finding.communicator->id.value && finding.sequence &&
                           each.sequence == *finding.sequence;
        // Another call may be meant that was made from the same line.
        const bool is_it = meant || place_.stack == 0 || each.stack == place_.stack;
        if (is_it && made(each.stack) &&
            (best == nullptr ||
             std::pair(meant, each.enter) >= std::pair(best_is_meant, best->enter))) {
          best = &each;
          best_is_meant = meant;
        }
      }
    }
    return best == nullptr ? "" : called(best->call);
  }

  std::string other() const {
    for (const HostFunctionText& function : trace_.host_functions) {
      if (made(function.stack)) {
        return called(function.call);
      }
    }
    for (const OutOfMemoryText& failure : trace_.out_of_memory) {
      if (made(failure.stack)) {
        return called(failure.call);
      }
    }
    for (auto event = trace_.events.rbegin(); event != trace_.events.rend(); ++event) {
      if (!event->moment && made(event->stack)) {
        return called(event->call);
      }
    }
    return "";
  }

 private:
  std::string called(uint32_t call) const {
    const CallSchema* const schema = schema_of(trace_, call);
    return schema == nullptr ? "" : "called " + schema->name + " at";
  }

  const ProcessTrace& trace_;
  const CodePlace& place_;
};

}  // namespace

PlaceRole role_of(const Run& run, const Finding& finding, const CodePlace& place) {
  PlaceRole role;
  const RankState* const state = state_of(run, place.rank);
  if (state == nullptr) {
    return role;
  }
  const ProcessTrace& trace = trace_of(run, *state);
  const auto activity = activity_of(run, *state);
  const auto last = activity ? user_place(trace, place.rank, activity->stack) : std::nullopt;
  const ThreadNow* const thread = working_thread(run, *state);
  const auto sampled = thread != nullptr ? place_now(*thread, place.rank)
                       : state->sampled  ? user_place(trace, place.rank, state->sampled->stack)
                                         : std::nullopt;
  const bool is_last = last && is_same_line(*last, place);
  const bool is_sampled = sampled && is_same_line(*sampled, place);
  role.is_newest = is_sampled || is_last || (!sampled && !last);
  role.last_call = is_last ? std::nullopt : last;
  role.last_seen = role.is_newest ? std::nullopt : sampled ? sampled : last;
  if (is_last && finding.code != "memory.growth-leak") {
    return role;
  }
  if (is_sampled) {
    role.words = thread == nullptr ? "last seen at" : has_ended(*state) ? "was last at" : "now at";
    return role;
  }
  const CallsAt calls(trace, place);
  // What leaked may be freed by the end, and stand in no table any more.
  role.words = finding.code == "memory.growth-leak"  ? "allocated at"
               : finding.code.ends_with("-oom")      ? "asked for memory at"
               : finding.code.starts_with("memory.") ? calls.allocation()
                                                     : "";
  role.words = role.words.empty() ? calls.operation(finding) : role.words;
  role.words = role.words.empty() ? calls.other() : role.words;
  return role;
}

}  // namespace traintrace
