#include "analyzer/exporters/collapsed.h"

#include <map>

#include "analyzer/memory/holders/held_bytes.h"
#include "analyzer/memory/holders/owner_text.h"
#include "analyzer/symbols/stack_frames.h"
#include "analyzer/text/printable.h"

namespace traintrace {
namespace {

// A frame's own separators would make two of it.
void append_frame(std::string& line, const std::string& frame) {
  line += line.empty() ? "" : ";";
  for (const char c : printable(frame)) {
    line += c == ';' ? ',' : c;
  }
}

uint64_t bytes_of(const HeldBytes& held, CollapsedBytes bytes) {
  return bytes == CollapsedBytes::kLive   ? held.live
         : bytes == CollapsedBytes::kPeak ? held.peak.value_or(0)
                                          : held.growth_per_step.value_or(0);
}

}  // namespace

std::string process_label(const ProcessTrace& trace) {
  const auto rank = trace.facts.find("env.RANK");
  return rank != trace.facts.end() ? "rank " + rank->second
                                   : trace.host + ':' + std::to_string(trace.pid);
}

std::string collapsed_stacks(std::span<const ProcessTrace> processes, CollapsedBytes bytes,
                             Symbolizer& symbolizer) {
  std::map<std::string, uint64_t> lines;
  for (const ProcessTrace& trace : processes) {
    for (const auto& [stack, held] : held_bytes(trace)) {
      const uint64_t value = bytes_of(held, bytes);
      if (value == 0) {
        continue;
      }
      std::string line;
      append_frame(line, process_label(trace));
      append_frame(line, owner_text(trace, held.like));
      const std::vector<PythonFrameText> frames = stack_frames(trace, stack, symbolizer);
      for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
        append_frame(line, frame_text(*frame));
      }
      uint64_t& sum = lines[line];
      sum = sum_of(sum, value);
    }
  }
  std::string text;
  for (const auto& [line, value] : lines) {
    text += line + ' ' + std::to_string(value) + '\n';
  }
  return text;
}

}  // namespace traintrace
