// What the loader tells about one ELF object, as a Module.
#pragma once

#include <link.h>

#include "interpose/stacks/modules.h"

namespace traintrace {

// Where its memory and its unwind tables are; `into` must be empty.  False for what has no memory
// of its own.
bool read_layout(const dl_phdr_info& info, Module& into) noexcept;

// The same with build-id and path.  The object must be mapped.
bool read_module(const dl_phdr_info& info, Module& into) noexcept;

}  // namespace traintrace
