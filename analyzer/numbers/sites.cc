#include "analyzer/numbers/sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace traintrace {
namespace {

constexpr size_t kMostFrames = 8;

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool enters_autograd(const PythonFrameText& frame) {
  return frame.file.ends_with("/torch/autograd/__init__.py") &&
         (frame.function == "backward" || frame.function == "grad");
}

// The line that called backward(); null: this is no such stack.
const PythonFrameText* backward_line(const StackText& stack) {
  const auto entered = std::find_if(stack.python.begin(), stack.python.end(), enters_autograd);
  const auto line = std::find_if(entered, stack.python.end(), [](const PythonFrameText& frame) {
    return is_user_file(frame.file);
  });
  return line == stack.python.end() ? nullptr : &*line;
}

}  // namespace

Site site_of(const ProcessTrace& trace, Rank rank, uint32_t stack) {
  Site site{user_place(trace, rank, stack), "", {}};
  const auto found = trace.stacks.find(stack);
  if (found == trace.stacks.end()) {
    return site;
  }
  const std::vector<PythonFrameText>& frames = found->second.python;
  for (size_t i = 0; i < frames.size() && i < kMostFrames; ++i) {
    site.frames.push_back(fmt::format("{} {}", base_name(frames[i].file), frames[i].function));
    if (is_user_file(frames[i].file)) {
      break;
    }
  }
  bool innermost = true;
  for (const PythonFrameText& frame : frames) {
    if (!is_user_file(frame.file)) {
      continue;
    }
    if (!innermost) {
      site.callers += fmt::format("{}{}:{}", site.callers.empty() ? "" : " < ",
                                  base_name(frame.file), frame.line);
    }
    innermost = false;
  }
  return site;
}

std::optional<CodePlace> place_of_backward(const ProcessTrace& trace, Rank rank) {
  std::optional<CodePlace> place;
  for (const auto& [id, stack] : trace.stacks) {
    const PythonFrameText* const line = backward_line(stack);
    if (line == nullptr) {
      continue;
    }
    if (place && (place->file != line->file || place->line != line->line)) {
      return std::nullopt;
    }
    place = CodePlace{rank, line->file, line->line, line->function, "python"};
  }
  return place;
}

std::string place_text(const std::optional<CodePlace>& place) {
  return place ? place_text(*place) : "an unknown place";
}

}  // namespace traintrace
