// From addresses in a recorded process to functions and lines, offline: by the paths and build-ids
// of the modules that it had loaded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct NativeFrame {
  std::string function;  // demangled; empty: not known
  std::string file;      // empty: not known
  int line = 0;          // 0: not known
  std::string module;    // path; empty: the address lies in none
  uint64_t offset = 0;   // in the module's ELF file; without a module the address itself
  bool inlined = false;  // into the frame after it
};

// "train_step at model.cc:12", "libc.so.6+0x29d90"
std::string native_frame_text(const NativeFrame& frame);

// The symbol itself where it is not mangled, or would become too long to be read.
std::string demangled(const std::string& symbol);

class ModuleSymbols;

class Symbolizer {
 public:
  Symbolizer();
  ~Symbolizer();
  Symbolizer(const Symbolizer&) = delete;
  Symbolizer& operator=(const Symbolizer&) = delete;

  // Where else the modules of that process may lie: another rank had the same build at a path of
  // its own.
  void learn(const ProcessTrace& trace);

  // Of a return address: the call before it.  Innermost first; several where functions were
  // inlined, at least one.  Files whose build-id is not the recorded one tell nothing.
  const std::vector<NativeFrame>& frames(const ProcessTrace& trace, uint64_t return_address);

 private:
  using ModuleKey = std::pair<std::string, std::string>;  // path, build-id
  ModuleSymbols& symbols_of(const ModuleKey& module);
  std::vector<NativeFrame> frames_of(const ModuleText& module, uint64_t offset);

  std::map<ModuleKey, std::unique_ptr<ModuleSymbols>> modules_;
  std::map<std::string, std::set<std::string>> paths_;  // by build-id
  std::map<std::pair<ModuleKey, uint64_t>, std::vector<NativeFrame>> cache_;
};

}  // namespace traintrace
