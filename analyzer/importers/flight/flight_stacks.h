// Stacks of a Flight Recorder dump, each once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "analyzer/importers/plain_value.h"
#include "analyzer/reader/process_trace.h"
#include "format/hashes.h"

namespace traintrace {

class FlightStacks {
 public:
  // Its number in `trace.stacks`, 0 if there is none.
  uint32_t add(const Value* frames, ProcessTrace& trace) {
    constexpr size_t kMostFrames = 128;
    const std::span<const Value> all =
        frames == nullptr ? std::span<const Value>() : frames->list();
    const std::span<const Value> kept = all.first(std::min(all.size(), kMostFrames));
    if (kept.empty()) {
      return 0;
    }
    // Picklers write equal texts once, so that equal frames have equal addresses; where they do
    // not, a stack is kept twice.
    uint64_t key = kept.size();
    for (const Value& frame : kept) {
      for (const Value& part : frame.pairs().first(std::min<size_t>(frame.pairs().size(), 16))) {
        key = format::mixed(key, reinterpret_cast<uintptr_t>(part.as_text().data()) ^
                                     static_cast<uint64_t>(part.as_integer(0)));
      }
    }
    const auto [at, is_new] = numbers_.try_emplace(key, static_cast<uint32_t>(numbers_.size() + 1));
    if (is_new) {
      StackText& stack = trace.stacks[at->second];
      for (const Value& frame : kept) {
        stack.python.push_back(frame_of(frame));
      }
      std::erase_if(stack.python, [](const PythonFrameText& frame) {
        return frame.file.empty() || frame.file == "??";
      });
    }
    return at->second;
  }

 private:
  static PythonFrameText frame_of(const Value& frame) {
    const auto text = [&](const char* key) {
      const Value* const value = frame.find(key);
      return value == nullptr ? std::string() : std::string(value->as_text());
    };
    const Value* const line = frame.find("line");
    const int64_t number = line == nullptr ? 0 : line->as_integer(0);
    return {text("name"), text("filename"),
            static_cast<int>(std::clamp<int64_t>(number, 0, 1 << 30))};
  }

  std::unordered_map<uint64_t, uint32_t> numbers_;
};

}  // namespace traintrace
