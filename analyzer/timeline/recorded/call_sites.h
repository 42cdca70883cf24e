// Where calls of a recorded trace come from, by their stacks.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

class Symbolizer;

class CallSites {
 public:
  CallSites(const ProcessTrace& trace, Symbolizer& symbolizer)
      : trace_(trace), symbolizer_(symbolizer) {}

  // "train.py(118): train_step"; empty: no code of the user's.
  const std::string& of(uint32_t stack);

 private:
  std::string text_of(uint32_t stack);

  const ProcessTrace& trace_;
  Symbolizer& symbolizer_;
  std::unordered_map<uint32_t, std::string> texts_;  // by stack
};

}  // namespace traintrace
