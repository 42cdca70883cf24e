#include "analyzer/memory/holders/callers.h"

#include <algorithm>
#include <set>

#include "analyzer/model/process/code_place.h"
#include "analyzer/model/process/comprehension.h"

namespace traintrace {
namespace {

constexpr size_t kMostCallers = 6;

// The job's frames from its line outwards; without those of comprehensions, which stand in the
// function that is the next.
std::vector<std::string> way_to(const ProcessTrace& trace, uint32_t id) {
  const auto stack = trace.stacks.find(id);
  const auto own = stack == trace.stacks.end() ? std::nullopt : user_place(trace, {0}, id);
  std::vector<std::string> way;
  if (!own || own->language != "python") {
    return way;
  }
  for (const PythonFrameText& frame : stack->second.python) {
    const CodePlace place{{0}, frame.file, frame.line, frame.function, "python"};
    const bool begins = way.empty() && place == *own;
    if (begins || (!way.empty() && is_user_file(frame.file) && !is_comprehension(frame.function))) {
      way.push_back(place_text(place));
    }
  }
  return way;
}

}  // namespace

HelperCallers::HelperCallers(const ProcessTrace& trace, const std::vector<uint32_t>& stacks) {
  std::map<std::string, std::map<uint32_t, std::vector<std::string>>> by_line;
  for (const uint32_t stack : std::set<uint32_t>(stacks.begin(), stacks.end())) {
    if (std::vector<std::string> way = way_to(trace, stack); !way.empty()) {
      by_line[way.front()].emplace(stack, std::move(way));
    }
  }
  for (const auto& [line, ways] : by_line) {
    std::set<std::string> callers;
    for (size_t i = 1; callers.size() < 2; ++i) {
      callers.clear();
      bool all_go_on = true;
      for (const auto& [stack, way] : ways) {
        all_go_on = all_go_on && i < way.size();
        callers.insert(i < way.size() ? way[i] : "");
      }
      if (callers.size() > kMostCallers || !all_go_on) {
        break;
      }
      for (const auto& [stack, way] : ways) {
        callers_[stack] = callers.size() < 2 ? "" : way[i];
      }
    }
  }
}

std::string HelperCallers::of(uint32_t stack) const {
  const auto found = callers_.find(stack);
  return found == callers_.end() ? "" : found->second;
}

}  // namespace traintrace
