// The next definition of a function behind this library, found in the loaded ELF objects by
// ourselves: for dlsym and dlvsym, which this library replaces and so cannot ask.
#pragma once

#include <cstddef>
#include <cstdint>

struct dl_phdr_info;

namespace traintrace {

// As dlsym(RTLD_NEXT) would answer here, default version.  Null: there is none.
void* next_definition(const char* function) noexcept;

// The default version in any other library, also one that was loaded with RTLD_LOCAL.  Takes the
// lock of the loader's list, which nobody holds while waiting for anything.
void* definition_elsewhere(const char* function) noexcept;

// The same of a function or a variable.
void* symbol_elsewhere(const char* name) noexcept;

// Whether this object has the function, as others see it.  Within a walk; this library has none.
bool defines_function(const dl_phdr_info& info, const char* function) noexcept;

// A variable of so many bytes in any other library.  Null: there is none.
void* variable_elsewhere(const char* name, size_t bytes) noexcept;

// How many objects were ever loaded: where that is the same, the same is found.  Some 50 ns.
uint64_t loads_so_far() noexcept;

}  // namespace traintrace
