// Symbols and lines of one ELF file, through elfutils.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/symbols/symbolizer.h"

struct Dwfl;
struct Dwfl_Module;

namespace traintrace {

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
