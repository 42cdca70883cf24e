// Where things lie in the mapped trace.
#pragma once

#include "format/trace_format.h"

namespace traintrace {

// All kinds are there once the file is laid out.
inline const format::Section& section_of(const format::FileHeader* file,
                                         format::SectionKind kind) noexcept {
  for (const format::Section& section : file->sections) {
    if (section.kind == kind) {
      return section;
    }
  }
  return file->sections[format::kMaxSections - 1];
}

inline char* at(format::FileHeader* file, const format::Section& section) noexcept {
  return reinterpret_cast<char*>(file) + section.offset;
}

}  // namespace traintrace
