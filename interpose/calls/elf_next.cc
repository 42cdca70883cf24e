#include "interpose/calls/elf_next.h"

#include <elf.h>
#include <link.h>

#include <cstdint>

#include "interpose/base/files.h"
#include "interpose/stacks/loader_walk.h"

namespace traintrace {
namespace {

struct Object {
  uint64_t base;
  const ElfW(Sym) * symbols;
  const char* strings;
  const uint32_t* gnu_hash;
  const uint16_t* versions;
};

// Most loaders have added the base to the addresses in the dynamic section, some have not.
template <class T>
const T* address(const ElfW(Dyn) & entry, uint64_t base) {
  const uint64_t value = entry.d_un.d_ptr;
  return reinterpret_cast<const T*>(value < base ? base + value : value);
}

bool read_dynamic(const ElfW(Dyn) * entry, uint64_t base, Object& object) {
  object = {base, nullptr, nullptr, nullptr, nullptr};
  for (; entry && entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_SYMTAB:
        object.symbols = address<ElfW(Sym)>(*entry, object.base);
        break;
      case DT_STRTAB:
        object.strings = address<char>(*entry, object.base);
        break;
      case DT_GNU_HASH:
        object.gnu_hash = address<uint32_t>(*entry, object.base);
        break;
      case DT_VERSYM:
        object.versions = address<uint16_t>(*entry, object.base);
        break;
      default:
        break;
    }
  }
  return object.symbols && object.strings && object.gnu_hash;
}

constexpr uint32_t gnu_hash_of(const char* name) {
  uint32_t hash = 5381;
  for (; *name; ++name) {
    hash = hash * 33 + static_cast<unsigned char>(*name);
  }
  return hash;
}

// Most objects have not got the name: two bits of their filter mostly say so.
bool may_have(const uint32_t* gnu_hash, uint32_t hash) {
  constexpr uint32_t kWordBits = sizeof(ElfW(Addr)) * 8;
  const uint32_t words = gnu_hash[2];
  const uint32_t shift = gnu_hash[3];
  if (words == 0) {
    return true;
  }
  const auto* const filter = reinterpret_cast<const ElfW(Addr)*>(gnu_hash + 4);
  const ElfW(Addr) word = filter[hash / kWordBits % words];
  return (word >> (hash % kWordBits) & word >> ((hash >> shift) % kWordBits) & 1) != 0;
}

const ElfW(Sym) * find_in(const Object& object, const char* name, int type) {
  constexpr uint16_t kHiddenVersion = 0x8000;
  const uint32_t bucket_count = object.gnu_hash[0];
  const uint32_t first_symbol = object.gnu_hash[1];
  const uint32_t bloom_words = object.gnu_hash[2];
  const uint32_t* const buckets = object.gnu_hash + 4 + bloom_words * sizeof(ElfW(Addr)) / 4;
  const uint32_t* const chains = buckets + bucket_count;
  const uint32_t hash = gnu_hash_of(name);
  uint32_t index =
      bucket_count && may_have(object.gnu_hash, hash) ? buckets[hash % bucket_count] : 0;
  if (index < first_symbol) {
    return nullptr;
  }
  for (;; ++index) {
    const uint32_t entry = chains[index - first_symbol];
    const ElfW(Sym)& symbol = object.symbols[index];
    if ((entry | 1) == (hash | 1) && symbol.st_shndx != SHN_UNDEF &&
        ELF64_ST_TYPE(symbol.st_info) == type && equal(object.strings + symbol.st_name, name) &&
        !(object.versions && object.versions[index] & kHiddenVersion)) {
      return &symbol;
    }
    if (entry & 1) {
      return nullptr;
    }
  }
}

void* address_of(const Object& object, const ElfW(Sym) * symbol) {
  return symbol ? reinterpret_cast<void*>(object.base + symbol->st_value) : nullptr;
}

// False: it is this library, or has no symbols.
bool read_other(const dl_phdr_info& info, Object& object) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      const auto* const dynamic =
          reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
      return dynamic != _DYNAMIC && read_dynamic(dynamic, info.dlpi_addr, object);
    }
  }
  return false;
}

enum class Sought : uint8_t { kFunction, kFunctionOrVariable };
struct Search {
  const char* name;
  Sought sought;
  void* found;
};

int look_in(dl_phdr_info* info, size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  Object object;
  if (read_other(*info, object)) {
    const ElfW(Sym)* symbol = find_in(object, search.name, STT_FUNC);
    if (symbol == nullptr && search.sought == Sought::kFunctionOrVariable) {
      symbol = find_in(object, search.name, STT_OBJECT);
    }
    search.found = address_of(object, symbol);
  }
  return search.found != nullptr;
}

void* search_elsewhere(const char* name, Sought sought) {
  Search search = {name, sought, nullptr};
  walk_loader(look_in, &search);
  return search.found;
}

}  // namespace

// Of the loader, by way of its list for debuggers: sanitizers replace dl_iterate_phdr and strcmp by
// functions that do not work before they have asked dlsym for the real ones.
void* next_definition(const char* function) noexcept {
  bool behind_us = false;
  void* before = nullptr;  // found in front of this library: better than nothing
  for (const link_map* map = _r_debug.r_map; map; map = map->l_next) {
    if (map->l_ld == _DYNAMIC) {
      behind_us = true;
      continue;
    }
    Object object;
    void* const found = read_dynamic(map->l_ld, map->l_addr, object)
                            ? address_of(object, find_in(object, function, STT_FUNC))
                            : nullptr;
    if (found && behind_us) {
      return found;
    }
    before = before ? before : found;
  }
  return before;
}

void* variable_elsewhere(const char* name, size_t bytes) noexcept {
  for (const link_map* map = _r_debug.r_map; map; map = map->l_next) {
    Object object;
    const ElfW(Sym)* const symbol =
        map->l_ld != _DYNAMIC && read_dynamic(map->l_ld, map->l_addr, object)
            ? find_in(object, name, STT_OBJECT)
            : nullptr;
    if (symbol != nullptr && symbol->st_size == bytes) {
      return address_of(object, symbol);
    }
  }
  return nullptr;
}

uint64_t loads_so_far() noexcept {
  uint64_t loads = 0;
  const auto take = [](dl_phdr_info* info, size_t, void* into) {
    *static_cast<uint64_t*>(into) = info->dlpi_adds;
    return 1;
  };
  walk_loader(take, &loads);
  return loads;
}

void* definition_elsewhere(const char* function) noexcept {
  return search_elsewhere(function, Sought::kFunction);
}

void* symbol_elsewhere(const char* name) noexcept {
  return search_elsewhere(name, Sought::kFunctionOrVariable);
}

bool defines_function(const dl_phdr_info& info, const char* function) noexcept {
  Object object;
  return read_other(info, object) && find_in(object, function, STT_FUNC) != nullptr;
}

}  // namespace traintrace
