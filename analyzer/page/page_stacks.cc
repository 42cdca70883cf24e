// Stacks of all ranks, merged: what they do now if somebody looked, else at their last call.
#include <algorithm>
#include <iterator>

#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/threads_now.h"
#include "analyzer/page/page_data.h"

namespace traintrace {
namespace {

struct Frame {
  std::string function, file;
  int line = 0;
  bool user = false;
  auto operator<=>(const Frame&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct Node {
  Ranks ranks;
  std::map<Frame, Node> children;
};

// Outermost first.
std::vector<Frame> frames_of(const ThreadNow& thread) {
  std::vector<Frame> frames;
  const std::vector<FrameNow>& own = thread.python.empty() ? thread.native : thread.python;
  for (auto frame = own.rbegin(); frame != own.rend(); ++frame) {
    frames.push_back({frame->function, frame->file.empty() ? frame->module : frame->file,
                      frame->line, frame->python && is_user_file(frame->file)});
  }
  return frames;
}

std::vector<Frame> frames_of(const ProcessTrace& trace, uint32_t id) {
  std::vector<Frame> frames;
  const auto stack = trace.stacks.find(id);
  if (stack == trace.stacks.end()) {
    return frames;
  }
  for (auto frame = stack->second.python.rbegin(); frame != stack->second.python.rend(); ++frame) {
    frames.push_back({frame->function, frame->file, frame->line, is_user_file(frame->file)});
  }
  if (frames.empty()) {
    for (auto address = stack->second.native.rbegin(); address != stack->second.native.rend();
         ++address) {
      if (const auto code = trace.code.find(*address); code != trace.code.end()) {
        frames.push_back({code->second.function, code->second.file, code->second.line,
                          is_user_file(code->second.file)});
      }
    }
  }
  return frames;
}

std::vector<Frame> frames_of(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  std::vector<Frame> frames;
  if (const ThreadNow* const thread = working_thread(run, state)) {
    frames = frames_of(*thread);
    if (!frames.empty()) {
      frames.push_back({doing_text(*thread), "", 0, false});
    }
  }
  const auto activity = frames.empty() ? activity_of(run, state) : std::nullopt;
  if (activity) {
    frames = frames_of(trace, activity->stack);
    frames.push_back({activity->call + (activity->open          ? " (inside)"
                                        : activity->queries > 0 ? " (polled)"
                                                                : " (its last call)"),
                      "", 0, false});
  }
  return frames;
}

PageJson json_of(const Node& node, const Ranks& culprits, TextTable& texts) {
  PageJson children = PageJson::array();
  for (const auto& [frame, child] : node.children) {
    PageJson own = {{"f", texts.index(frame.function)},
                    {"p", texts.index(frame.file)},
                    {"l", frame.line},
                    {"u", frame.user ? 1 : 0},
                    {"n", child.ranks.size()},
                    {"r", texts.index(rank_list(child.ranks))}};
    Ranks blamed;
    std::copy_if(child.ranks.begin(), child.ranks.end(), std::back_inserter(blamed),
                 [&](Rank rank) { return contains(culprits, rank); });
    if (blamed.size() == child.ranks.size()) {
      own["x"] = 1;
    } else if (!blamed.empty()) {  // it is in the same frame as others
      own["m"] = texts.index(rank_list(blamed));
    }
    if (!child.children.empty()) {
      own["c"] = json_of(child, culprits, texts);
    }
    children.push_back(std::move(own));
  }
  return children;
}

}  // namespace

PageJson page_stacks(const Run& run, const Ranks& culprits, TextTable& texts) {
  constexpr size_t kDeepest = 200;
  Node root;
  bool now = false;
  for (const RankState& state : run.ranks) {
    std::vector<Frame> frames = frames_of(run, state);
    frames.resize(std::min(frames.size(), kDeepest));
    now = now || working_thread(run, state) != nullptr;
    Node* node = &root;
    for (Frame& frame : frames) {
      node = &node->children[std::move(frame)];
      insert(node->ranks, state.rank);
    }
  }
  return {{"now", now}, {"ranks", run.ranks.size()}, {"tree", json_of(root, culprits, texts)}};
}

}  // namespace traintrace
