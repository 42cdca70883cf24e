#include "interpose/elf_next.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

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

bool read_dynamic(const dl_phdr_info& info, Object& object) {
  const ElfW(Dyn)* entry = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      entry = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    }
  }
  object = {info.dlpi_addr, nullptr, nullptr, nullptr, nullptr};
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

uint32_t gnu_hash_of(const char* name) {
  uint32_t hash = 5381;
  for (; *name; ++name) {
    hash = hash * 33 + static_cast<unsigned char>(*name);
  }
  return hash;
}

void* find_in(const Object& object, const char* name) {
  constexpr uint16_t kHiddenVersion = 0x8000;
  const uint32_t bucket_count = object.gnu_hash[0];
  const uint32_t first_symbol = object.gnu_hash[1];
  const uint32_t bloom_words = object.gnu_hash[2];
  const uint32_t* const buckets = object.gnu_hash + 4 + bloom_words * sizeof(ElfW(Addr)) / 4;
  const uint32_t* const chains = buckets + bucket_count;
  const uint32_t hash = gnu_hash_of(name);
  uint32_t index = bucket_count ? buckets[hash % bucket_count] : 0;
  if (index < first_symbol) {
    return nullptr;
  }
  for (;; ++index) {
    const uint32_t entry = chains[index - first_symbol];
    const ElfW(Sym)& symbol = object.symbols[index];
    if ((entry | 1) == (hash | 1) && symbol.st_shndx != SHN_UNDEF &&
        ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
        strcmp(object.strings + symbol.st_name, name) == 0 &&
        !(object.versions && object.versions[index] & kHiddenVersion)) {
      return reinterpret_cast<void*>(object.base + symbol.st_value);
    }
    if (entry & 1) {
      return nullptr;
    }
  }
}

struct Search {
  const char* name;
  bool behind_us;
  void* before;  // found in front of this library: better than nothing
  void* found;
};

bool is_this_library(const dl_phdr_info& info) {
  const auto here = reinterpret_cast<uint64_t>(&next_definition);
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    const uint64_t begin = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && here >= begin && here < begin + segment.p_memsz) {
      return true;
    }
  }
  return false;
}

int visit(dl_phdr_info* info, size_t, void* context) {
  Search& search = *static_cast<Search*>(context);
  if (is_this_library(*info)) {
    search.behind_us = true;
    return 0;
  }
  Object object;
  void* const found = read_dynamic(*info, object) ? find_in(object, search.name) : nullptr;
  if (found && search.behind_us) {
    search.found = found;
    return 1;
  }
  search.before = search.before ? search.before : found;
  return 0;
}

}  // namespace

void* next_definition(const char* function) noexcept {
  Search search = {function, false, nullptr, nullptr};
  dl_iterate_phdr(visit, &search);
  return search.found ? search.found : search.before;
}

}  // namespace traintrace
