// The real functions behind the exported ones.
#pragma once

#include "interpose/calls/copies.h"
#include "interpose/calls/symbols.h"

namespace traintrace {

// Null: not looked up yet, as all of kCopyOfCaller.
extern void* g_originals[kMaxCopies + 1][kSymbolCount];

void* find_original(SymbolId symbol, int copy, const void* caller) noexcept;
inline void* original_of_copy(SymbolId symbol, int copy, const void* caller) noexcept {
  void* const known = __atomic_load_n(&g_originals[copy][symbol], __ATOMIC_RELAXED);
  return known ? known : find_original(symbol, copy, caller);
}

// `caller`: the return address of the call.  Null: no loaded library has the function (counted).
inline void* original(format::Library library, SymbolId symbol, const void* caller) noexcept {
  return original_of_copy(symbol, copy_for(library, symbol, caller), caller);
}

// What the caller would be bound to without us: what is global comes before what its own libraries
// have, if it is of the version that the caller is linked to.  Null: nothing.
void* meant_by(const void* caller, SymbolId symbol) noexcept;

// What is to be handed out where the real library answers `real`: the entry, if `real` is the
// original (or becomes it), else `real` itself: a second copy of the library is left alone.
void* entry_instead_of(void* real, SymbolId symbol) noexcept;

// The real dlsym and dlvsym.
void* real_lookup(void* handle, const char* name) noexcept;
void* real_lookup_version(void* handle, const char* name, const char* version) noexcept;

}  // namespace traintrace
