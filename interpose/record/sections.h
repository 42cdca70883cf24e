// Where things lie in the memory of the trace.
#pragma once

#include "format/trace_format.h"

namespace traintrace {

// The last one, which is never used, where there is no such section.
inline int index_of(const format::FileHeader* file, format::SectionKind kind) noexcept {
  int index = 0;
  while (index < format::kMaxSections - 1 && file->sections[index].kind != kind) {
    ++index;
  }
  return index;
}

inline const format::Section& section_of(const format::FileHeader* file,
                                         format::SectionKind kind) noexcept {
  return file->sections[index_of(file, kind)];
}

inline char* at(format::FileHeader* file, const format::Section& section) noexcept {
  return reinterpret_cast<char*>(file) + section.offset;
}

}  // namespace traintrace
