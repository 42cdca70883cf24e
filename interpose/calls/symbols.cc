#include "interpose/calls/symbols.h"

#include <algorithm>

#include "interpose/base/files.h"

namespace traintrace {
namespace {

using format::Library;

struct SymbolSpec {
  const char* name;
  Library library;
};

// Groups of exports.def; the library counts only for those that are handed out.
#define TT_OF_Thunk Runtime
#define TT_OF_Exit Runtime
#define TT_OF_Data Nccl
#define TT_OF_Torch Runtime
#define TT_OF_Cupti Runtime
#define TT_OF_Nvtx Runtime
#define TT_OF_Marker Runtime
#define TT_OF_Driver Driver
#define TT_OF_Logger CublasLt
#define TT_OF_Runtime Runtime
constexpr SymbolSpec kSymbols[kSymbolCount] = {
#define TT_CALL(library, kind, function, ...) {#function, Library::library},
#define TT_CALL_PTSZ(library, kind, function, ...) \
  {#function, Library::library}, {#function "_ptsz", Library::library},
#define TT_CALL_PTDS(library, kind, function, ...) \
  {#function, Library::library}, {#function "_ptds", Library::library},
#define TT_CALL_AS(library, kind, exported, typed, ...) {#exported, Library::library},
#include "format/calls.def"
#define TT_EXPORT(group, function) {#function, Library::TT_OF_##group},
#include "interpose/calls/exports.def"
#define TT_SECOND_Nccl(function) {"p" #function, Library::Nccl},
#define TT_CALL(library, kind, function, ...) TT_SECOND_##library(function)
#define TT_CALL_PTSZ(...)
#define TT_CALL_PTDS(...)
#define TT_CALL_AS(...)
#include "format/calls.def"
};

constexpr uint32_t hash_of(const char* name) {
  uint32_t hash = 2166136261u;
  for (; *name; ++name) {
    hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619u;
  }
  return hash;
}

struct Row {
  uint32_t hash;
  SymbolId symbol;
};
struct Index {
  Row rows[kSymbolCount];
};

consteval Index sorted_by_hash() {
  Index index = {};
  for (size_t i = 0; i < kSymbolCount; ++i) {
    index.rows[i] = {hash_of(kSymbols[i].name), static_cast<SymbolId>(i)};
  }
  std::sort(index.rows, index.rows + kSymbolCount,
            [](const Row& a, const Row& b) { return a.hash < b.hash; });
  return index;
}
constexpr Index kIndex = sorted_by_hash();

// dlsym is asked for many names, few of them ours; "cu" alone would be cuFFT, cuSOLVER and curl
// too.
bool may_be_ours(const char* name) {
  return (name[0] == 'c' && name[1] == 'u' &&
          ((name[2] >= 'A' && name[2] <= 'Z') || name[2] == 'd' || name[2] == 'b')) ||
         name[0] == 'n' || name[0] == 'p' || name[0] == '_';
}

}  // namespace

const char* name_of(SymbolId symbol) noexcept {
  return kSymbols[symbol].name;
}

format::Library library_of(SymbolId symbol) noexcept {
  return kSymbols[symbol].library;
}

SymbolId find_symbol(const char* name) noexcept {
  if (!may_be_ours(name)) {
    return kNoSymbol;
  }
  const uint32_t hash = hash_of(name);
  const Row* const end = kIndex.rows + kSymbolCount;
  const Row* row =
      std::lower_bound(kIndex.rows, end, hash, [](const Row& a, uint32_t b) { return a.hash < b; });
  for (; row != end && row->hash == hash; ++row) {
    if (equal(kSymbols[row->symbol].name, name)) {
      return row->symbol;
    }
  }
  return kNoSymbol;
}

}  // namespace traintrace
