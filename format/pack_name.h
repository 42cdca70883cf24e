// Gives packs (pack.h) their names.  For both halves: no exceptions, nothing of the C++ runtime.
#pragma once

#include <cstddef>

#include "format/pack.h"

namespace traintrace::format {

inline constexpr size_t kMostPackName = 256;

// Renames the pack `first` in this folder (a descriptor), written with `head`, to STEM.ttz.  A pack
// of the same process is replaced.  Another process may have the same host name, PID and start
// time, in a container: where STEM.ttz is its pack the name is STEM.1.ttz, and so on.  It is
// written to `name`.  Returns errno, 0 for none.
int name_pack(int folder, const char* first, const char* stem, const PackHead& head,
              char (&name)[kMostPackName]) noexcept;

}  // namespace traintrace::format
