#include "analyzer/symbols/stack_frames.h"

#include <fmt/format.h>

namespace traintrace {
namespace {

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

PythonFrameText frame_of(const NativeFrame& frame) {
  if (!frame.function.empty()) {
    return {frame.function, frame.file.empty() ? frame.module : frame.file, frame.line};
  }
  return {fmt::format("{}+0x{:x}", base_name(frame.module), frame.offset), frame.module, 0};
}

}  // namespace

std::vector<PythonFrameText> stack_frames(const ProcessTrace& trace, uint32_t stack,
                                          Symbolizer& symbolizer) {
  const auto found = trace.stacks.find(stack);
  if (found == trace.stacks.end()) {
    return {};
  }
  if (!found->second.python.empty()) {
    return found->second.python;
  }
  std::vector<PythonFrameText> frames;
  for (const uint64_t address : found->second.native) {
    for (const NativeFrame& frame : symbolizer.frames(trace, address)) {
      frames.push_back(frame_of(frame));
    }
  }
  return frames;
}

std::string frame_text(const PythonFrameText& frame) {
  const std::string_view file = base_name(frame.file);
  return frame.line > 0  ? fmt::format("{} ({}:{})", frame.function, file, frame.line)
         : !file.empty() ? fmt::format("{} ({})", frame.function, file)
                         : frame.function;
}

}  // namespace traintrace
