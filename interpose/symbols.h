// Every exported function by number: the calls of calls.def with their ids, then exports.def.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/schema.h"

namespace traintrace {

enum class Export : uint16_t {
#define TT_EXPORT(group, function) function,
#include "interpose/exports.def"
  kCount
};

using SymbolId = uint16_t;
inline constexpr SymbolId kNoSymbol = 0xffff;
inline constexpr size_t kSymbolCount = format::kCallCount + static_cast<size_t>(Export::kCount);

constexpr SymbolId symbol_of(format::CallId call) {
  return static_cast<SymbolId>(call);
}
constexpr SymbolId symbol_of(Export function) {
  return static_cast<SymbolId>(format::kCallCount + static_cast<size_t>(function));
}

const char* name_of(SymbolId symbol) noexcept;
format::Library library_of(SymbolId symbol) noexcept;  // only of calls and of doors to them
SymbolId find_symbol(const char* name) noexcept;       // kNoSymbol: not one of ours

// Addresses of the exported entries; null: never handed out in place of dlsym's answer.
extern "C" [[gnu::visibility("hidden")]] void* const tt_entries[kSymbolCount];
inline void* entry_of(SymbolId symbol) noexcept {
  return tt_entries[symbol];
}

}  // namespace traintrace
