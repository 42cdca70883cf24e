// A process can hold several copies of one vendor's library (two versions of the runtime, say), and
// each caller is bound to one of them.  Since all of them come through the same entry here, the
// entry must go on to the copy that the caller would have reached.
#pragma once

#include <cstdint>

#include "interpose/calls/symbols.h"

struct link_map;

namespace traintrace {

// Number 0 is the one found first.  Each extension may have a runtime of its own linked into it.
inline constexpr int kMaxCopies = 14;
// Of a caller that is bound to one more: what it is meant for is looked up at each call.
inline constexpr int kCopyOfCaller = kMaxCopies;

// What is known of the page that a call comes from: page << kCopyBits, and for each library some
// bits, 0 not known yet, else 1 + the number of its copy.
inline constexpr int kBitsOfCopy = 4;
inline constexpr uint64_t kCopyMask = (1U << kBitsOfCopy) - 1;
inline constexpr int kCopyBits = kBitsOfCopy * static_cast<int>(format::kLibraryCount);
static_assert(kCopyOfCaller + 1 <= static_cast<int>(kCopyMask));
inline constexpr int kCallerPages = 4096;  // PyTorch launches kernels from some thousand
extern uint64_t g_caller_pages[kCallerPages];

// By its file's name: libcudart, libcuda.so, libnccl.so.  What goes past us to one of these may be
// missed in a verdict, calls of cuBLAS in figures only.
bool is_vendor_library(const char* path) noexcept;

int find_copy(format::Library library, SymbolId symbol, const void* caller) noexcept;

inline uint64_t page_of_caller(const void* caller) noexcept {
  return reinterpret_cast<uint64_t>(caller) >> 12;
}
// -1: what is known is of another page, or not of this library.
inline int copy_known(uint64_t known, uint64_t page, format::Library library) noexcept {
  const uint64_t copy = known >> (kBitsOfCopy * static_cast<int>(library)) & kCopyMask;
  return known >> kCopyBits == page ? static_cast<int>(copy) - 1 : -1;
}

// Which copy of the library a call from that return address is meant for.
inline int copy_for(format::Library library, SymbolId symbol, const void* caller) noexcept {
  const uint64_t page = page_of_caller(caller);
  const uint64_t known = __atomic_load_n(&g_caller_pages[page % kCallerPages], __ATOMIC_RELAXED);
  const int copy = copy_known(known, page, library);
  return copy >= 0 ? copy : find_copy(library, symbol, caller);
}

// As far as was known when a call came from a new place last.
bool is_only_copy(format::Library library) noexcept;

// The file of some copy that is loaded, whatever stands behind the library's name in it; false:
// there is none, or the loader must not be asked.
bool path_of_any_copy(format::Library library, char* path, size_t size) noexcept;

// The version of the library's functions that an object is linked to ("libcudart.so.12"); null: it
// asks for none.
const char* needed_version(const link_map& object, format::Library library) noexcept;

// dlopen's handle of a copy but number 0; null: it cannot be had.
void* handle_of_copy(format::Library library, int copy) noexcept;

}  // namespace traintrace
