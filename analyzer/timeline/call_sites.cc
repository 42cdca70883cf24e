#include "analyzer/timeline/call_sites.h"

#include <fmt/format.h>

#include <optional>

#include "analyzer/model/code_place.h"
#include "analyzer/model/progress.h"
#include "analyzer/symbols/symbolizer.h"

namespace traintrace {

std::string CallSites::text_of(uint32_t stack) {
  const std::optional<CodePlace> place = user_place(trace_, {0}, stack);
  if (!place) {
    return "";
  }
  if (place->language == "native") {
    const uint64_t address = native_user_frame(trace_, trace_.stacks.at(stack));
    for (const NativeFrame& frame : symbolizer_.frames(trace_, address)) {
      if (!frame.function.empty() && !frame.file.empty()) {
        return fmt::format("{}({}): {}", frame.file, frame.line, frame.function);
      }
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
