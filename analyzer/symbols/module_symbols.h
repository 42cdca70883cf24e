// Symbols and lines of one ELF file, through elfutils.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/symbols/symbolizer.h"

struct Dwfl;
struct Dwfl_Module;

namespace traintrace {

// The function that an address lies in, by DWARF, and those inlined into it there, innermost first:
// all but the innermost with the line that the one before it was called from.  `address` is one of
// the module as it was reported.  Empty: nothing is known of it.
std::vector<NativeFrame> inlined_frames(Dwfl_Module* module, uint64_t address);

// The line that an address lies in; nothing is changed where none is known.
void put_line(Dwfl_Module* module, uint64_t address, NativeFrame& frame);

class ModuleSymbols {
 public:
  // Opens the file, and a debug file of the same build-id in the usual places.
  ModuleSymbols(const std::string& path, const std::string& build_id);
  ~ModuleSymbols();
  ModuleSymbols(const ModuleSymbols&) = delete;
  ModuleSymbols& operator=(const ModuleSymbols&) = delete;

  // `offset` is an address in the ELF file.  Innermost first; empty: nothing is known of it.
  std::vector<NativeFrame> frames(uint64_t offset) const;

 private:
  Dwfl* dwfl_ = nullptr;
  Dwfl_Module* module_ = nullptr;  // null: no file, or not the one that was recorded
  uint64_t bias_ = 0;              // addresses of dwfl - addresses of the file
};

}  // namespace traintrace
