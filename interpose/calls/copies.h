// A process can hold several copies of one vendor's library (two versions of the runtime, say), and
// each caller is bound to one of them.  Since all of them come through the same entry here, the
// entry must go on to the copy that the caller would have reached.
#pragma once

#include <cstdint>

#include "interpose/calls/symbols.h"

namespace traintrace {

inline constexpr int kMaxCopies = 3;  // number 0 is the one found first

// What is known of the page that a call comes from: page << kCopyBits, and for each library two
// bits, 0 not known yet, else 1 + the number of its copy.
inline constexpr int kCopyBits = 2 * static_cast<int>(format::kLibraryCount);
inline constexpr int kCallerPages = 1024;
extern uint64_t g_caller_pages[kCallerPages];

// By its file's name: libcudart, libcuda.so, libnccl.so.  What goes past us to one of these may be
// missed in a verdict, calls of cuBLAS in figures only.
bool is_vendor_library(const char* path) noexcept;

int find_copy(format::Library library, SymbolId symbol, const void* caller) noexcept;

// Which copy of the library a call from that return address is meant for.
inline int copy_for(format::Library library, SymbolId symbol, const void* caller) noexcept {
  const uint64_t page = reinterpret_cast<uint64_t>(caller) >> 12;
  const uint64_t known = __atomic_load_n(&g_caller_pages[page % kCallerPages], __ATOMIC_RELAXED);
  const auto copy = known >> (2 * static_cast<int>(library)) & 3;
  if (known >> kCopyBits == page && copy) [[likely]] {
    return static_cast<int>(copy) - 1;
  }
  return find_copy(library, symbol, caller);
}

// As far as was known when a call came from a new place last.
bool is_only_copy(format::Library library) noexcept;

// The file of some copy that is loaded, whatever stands behind the library's name in it; false:
// there is none, or the loader must not be asked.
bool path_of_any_copy(format::Library library, char* path, size_t size) noexcept;

// dlopen's handle of a copy but number 0; null: it cannot be had.
void* handle_of_copy(format::Library library, int copy) noexcept;

}  // namespace traintrace
