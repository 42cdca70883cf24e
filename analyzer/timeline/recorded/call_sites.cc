#include "analyzer/timeline/recorded/call_sites.h"

#include <fmt/format.h>

#include <optional>

#include "analyzer/model/process/code_place.h"
#include "analyzer/model/process/library_header.h"
#include "analyzer/model/progress.h"
#include "analyzer/symbols/symbolizer.h"

namespace traintrace {

namespace {

// The innermost frame of the user's, if its line is known; a function of a library's header is
// none.
const NativeFrame* user_line(const ProcessTrace& trace, const StackText& stack,
                             Symbolizer& symbolizer) {
  for (const uint64_t address : stack.native) {
    for (const NativeFrame& frame : symbolizer.frames(trace, address)) {
      if (!is_user_module(frame.module) || is_library_header(frame.file)) {
        continue;
      }
      return frame.function.empty() || frame.file.empty() ? nullptr : &frame;
    }
  }
  return nullptr;
}

}  // namespace

std::string CallSites::text_of(uint32_t stack) {
  const std::optional<CodePlace> place = user_place(trace_, {0}, stack);
  if (!place) {
    return "";
  }
  if (place->language == "native") {
    if (const auto* frame = user_line(trace_, trace_.stacks.at(stack), symbolizer_)) {
      return fmt::format("{}({}): {}", frame->file, frame->line, frame->function);
    }
  }
  return fmt::format("{}({}): {}", place->file, place->line, place->function);
}

const std::string& CallSites::of(uint32_t stack) {
  const auto [known, is_new] = texts_.try_emplace(stack);
  if (is_new && stack != 0) {
    known->second = text_of(stack);
  }
  return known->second;
}

}  // namespace traintrace
