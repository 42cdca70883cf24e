// Every exported function by number: the calls of calls.def with their ids, then exports.def, then
// NCCL's second names.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/schema.h"

namespace traintrace {

enum class Export : uint16_t {
#define TT_EXPORT(group, function) function,
#include "interpose/calls/exports.def"
  kCount
};

// NCCL exports each function as pncclX too, so that a profiler can take the place of ncclX and go
// on to the other.
#define TT_SECOND_Runtime(function)
#define TT_SECOND_Driver(function)
#define TT_SECOND_Nccl(function) p##function,
enum class SecondName : uint16_t {
#define TT_CALL(library, kind, function, ...) TT_SECOND_##library(function)
#define TT_CALL_PTSZ(...)
#define TT_CALL_PTDS(...)
#define TT_CALL_AS(...)
#include "format/calls.def"
  kCount
};
#undef TT_SECOND_Nccl

using SymbolId = uint16_t;
inline constexpr SymbolId kNoSymbol = 0xffff;
inline constexpr size_t kFirstSecondName = format::kCallCount + static_cast<size_t>(Export::kCount);
inline constexpr size_t kSymbolCount = kFirstSecondName + static_cast<size_t>(SecondName::kCount);

constexpr SymbolId symbol_of(format::CallId call) {
  return static_cast<SymbolId>(call);
}
constexpr SymbolId symbol_of(Export function) {
  return static_cast<SymbolId>(format::kCallCount + static_cast<size_t>(function));
}
constexpr SymbolId symbol_of(SecondName function) {
  return static_cast<SymbolId>(kFirstSecondName + static_cast<size_t>(function));
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
