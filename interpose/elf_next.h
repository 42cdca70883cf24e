// The next definition of a function behind this library, found in the loaded ELF objects by
// ourselves: for dlsym and dlvsym, which this library replaces and so cannot ask.
#pragma once

namespace traintrace {

// As dlsym(RTLD_NEXT) would answer here, default version.  Null: there is none.
void* next_definition(const char* function) noexcept;

}  // namespace traintrace
