#include "analyzer/symbols/module_symbols.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <unistd.h>

#include <cstdlib>

#include "analyzer/symbols/module_file.h"

namespace traintrace {
namespace {

const Dwfl_Callbacks kCallbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = find_debug_file,
    .section_address = dwfl_offline_section_address,
    .debuginfo_path = nullptr,  // the usual places
};

std::string hex_build_id(Dwfl_Module* module) {
  const unsigned char* bits = nullptr;
  GElf_Addr ignored = 0;
  const int bytes = dwfl_module_build_id(module, &bits, &ignored);
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text += "0123456789abcdef"[bits[i] / 16];
    text += "0123456789abcdef"[bits[i] % 16];
  }
  return text;
}

std::string text_or_empty(const char* text) {
  return text == nullptr ? "" : text;
}

std::string function_of(Dwarf_Die* die) {
  for (const unsigned name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    Dwarf_Attribute attribute;
    if (dwarf_attr_integrate(die, name, &attribute) != nullptr) {
      return demangled(text_or_empty(dwarf_formstring(&attribute)));
    }
  }
  return text_or_empty(dwarf_diename(die));
}

bool is_function(Dwarf_Die* die) {
  const int tag = dwarf_tag(die);
  return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_subprogram || tag == DW_TAG_entry_point;
}

Dwarf_Word number_of(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  return dwarf_attr(die, name, &attribute) != nullptr && dwarf_formudata(&attribute, &value) == 0
             ? value
             : 0;
}

// The scopes around an address, innermost first, through inlined calls up to the function itself.
std::vector<Dwarf_Die> scopes_at(Dwfl_Module* module, Dwarf_Die* unit, Dwarf_Addr address) {
  Dwarf_Die* scopes = nullptr;
  int count = dwarf_getscopes(unit, address, &scopes);
  if (count <= 0) {
    return {};
  }
  // dwarf_getscopes leaves the function at the first inlined one, for where that was written;
  // dwarf_getscopes_die goes on to where it was inlined.
  Dwarf_Addr bias = 0;
  Dwarf_Die innermost;
  const bool found = dwarf_offdie(dwfl_module_getdwarf(module, &bias), dwarf_dieoffset(&scopes[0]),
                                  &innermost) != nullptr;
  std::free(scopes);
  scopes = nullptr;
  count = found ? dwarf_getscopes_die(&innermost, &scopes) : 0;
  std::vector<Dwarf_Die> all(scopes, scopes + std::max(count, 0));
  std::free(scopes);
  return all;
}

}  // namespace

std::vector<NativeFrame> inlined_frames(Dwfl_Module* module, uint64_t address) {
  Dwarf_Addr bias = 0;
  Dwarf_Die* unit = dwfl_module_addrdie(module, address, &bias);
  if (unit == nullptr) {
    return {};
  }
  Dwarf_Files* files = nullptr;
  size_t file_count = 0;
  dwarf_getsrcfiles(unit, &files, &file_count);
  std::vector<NativeFrame> frames;
  NativeFrame place;
  for (Dwarf_Die& scope : scopes_at(module, unit, address - bias)) {
    if (!is_function(&scope)) {
      continue;
    }
    NativeFrame& frame = frames.emplace_back(place);
    frame.function = function_of(&scope);
    frame.inlined = dwarf_tag(&scope) == DW_TAG_inlined_subroutine;
    const Dwarf_Word file = number_of(&scope, DW_AT_call_file);
    place.file = files != nullptr && file < file_count
                     ? text_or_empty(dwarf_filesrc(files, file, nullptr, nullptr))
                     : "";
    place.line = static_cast<int>(number_of(&scope, DW_AT_call_line));
    if (!frame.inlined) {
      break;
    }
  }
  return frames;
}

void put_line(Dwfl_Module* module, uint64_t address, NativeFrame& frame) {
  int line = 0;
  Dwfl_Line* const source = dwfl_module_getsrc(module, address);
  const char* const file = source == nullptr
                               ? nullptr
                               : dwfl_lineinfo(source, nullptr, &line, nullptr, nullptr, nullptr);
  if (file != nullptr) {
    frame.file = file;
    frame.line = line;
  }
}

ModuleSymbols::ModuleSymbols(const std::string& path, const std::string& build_id) {
  dwfl_ = dwfl_begin(&kCallbacks);
  if (dwfl_ == nullptr) {
    return;
  }
  Result<InputFile> file = open_module(path);
  if (!file) {
    return;
  }
  dwfl_report_begin(dwfl_);
  const int descriptor = file->release();
  Dwfl_Module* module = dwfl_report_offline(dwfl_, path.c_str(), path.c_str(), descriptor);
  if (module == nullptr) {
    close(descriptor);
  }
  dwfl_report_end(dwfl_, nullptr, nullptr);
  GElf_Addr bias = 0;
  // Without a recorded build-id there is no way to tell: wrong names are worse than none.
  if (module == nullptr || dwfl_module_getelf(module, &bias) == nullptr || build_id.empty() ||
      hex_build_id(module) != build_id) {
    return;
  }
  module_ = module;
  bias_ = bias;
}

ModuleSymbols::~ModuleSymbols() {
  if (dwfl_ != nullptr) {
    dwfl_end(dwfl_);
  }
}

std::vector<NativeFrame> ModuleSymbols::frames(uint64_t offset) const {
  if (module_ == nullptr) {
    return {};
  }
  const Dwarf_Addr address = offset + bias_;
  std::vector<NativeFrame> frames = inlined_frames(module_, address);
  if (frames.empty()) {
    GElf_Off within = 0;
    GElf_Sym symbol;
    const char* name =
        dwfl_module_addrinfo(module_, address, &within, &symbol, nullptr, nullptr, nullptr);
    if (name == nullptr) {
      return {};
    }
    frames.emplace_back().function = demangled(name);
  }
  put_line(module_, address, frames.front());
  return frames;
}

}  // namespace traintrace
