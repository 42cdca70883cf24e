// The test program itself, as a trace has it.
#pragma once

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>

#include "analyzer/reader/process_trace.h"

namespace traintrace::testing {

inline std::string hex_build_id(const char* notes, size_t bytes) {
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    const size_t name = (size_t{note.n_namesz} + 3) / 4 * 4;
    const size_t whole = sizeof note + name + (size_t{note.n_descsz} + 3) / 4 * 4;
    if (note.n_type == NT_GNU_BUILD_ID) {
      std::string text;
      for (size_t i = 0; i < note.n_descsz; ++i) {
        const auto byte = static_cast<unsigned char>(notes[sizeof note + name + i]);
        text += "0123456789abcdef"[byte / 16];
        text += "0123456789abcdef"[byte % 16];
      }
      return text;
    }
    notes += std::min(whole, bytes);
    bytes -= std::min(whole, bytes);
  }
  return "";
}

inline int add_program(dl_phdr_info* info, size_t, void* data) {
  auto& module = *static_cast<ModuleText*>(data);
  module.bias = info->dlpi_addr;
  module.begin = ~uint64_t{0};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const uint64_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD) {
      module.begin = std::min(module.begin, begin);
      module.end = std::max(module.end, begin + header.p_memsz);
    } else if (header.p_type == PT_NOTE && module.build_id.empty()) {
      module.build_id = hex_build_id(reinterpret_cast<const char*>(begin), header.p_memsz);
    }
  }
  return 1;  // the first is the program
}

inline ModuleText this_program() {
  ModuleText module;
  dl_iterate_phdr(add_program, &module);
  module.path = std::filesystem::read_symlink("/proc/self/exe").string();
  return module;
}

}  // namespace traintrace::testing
