#include "analyzer/numbers/sites.h"

#include <fmt/format.h>

#include <string_view>

namespace traintrace {
namespace {

constexpr size_t kMostFrames = 8;

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
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

std::string place_text(const std::optional<CodePlace>& place) {
  return place ? place_text(*place) : "an unknown place";
}

}  // namespace traintrace
