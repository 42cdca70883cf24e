#include "interpose/calls/relocations.h"

#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <cstring>

#include "interpose/calls/copies.h"
#include "interpose/calls/symbols.h"
#include "interpose/stacks/loader_walk.h"

namespace traintrace {
namespace {

struct Search {
  Importer* into;
  int most;
  int count;
};

const ElfW(Dyn) * dynamic_of(const dl_phdr_info& info) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      return reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    }
  }
  return nullptr;
}

// The loader stores addresses here in most libraries, offsets in some (the vdso).
uint64_t address_in(const dl_phdr_info& info, const ElfW(Dyn) & entry) {
  return entry.d_un.d_ptr < info.dlpi_addr ? info.dlpi_addr + entry.d_un.d_ptr : entry.d_un.d_ptr;
}

void note(const dl_phdr_info& info, const ElfW(Dyn) & entry, Importer& importer,
          uint64_t& relative) {
  switch (entry.d_tag) {
    case DT_SYMTAB:
      importer.symbols = address_in(info, entry);
      break;
    case DT_STRTAB:
      importer.strings = address_in(info, entry);
      break;
    case DT_JMPREL:
      importer.tables[0].address = address_in(info, entry);
      break;
    case DT_PLTRELSZ:
      importer.tables[0].bytes = entry.d_un.d_val;
      break;
    case DT_RELA:
      importer.tables[1].address = address_in(info, entry);
      break;
    case DT_RELASZ:
      importer.tables[1].bytes = entry.d_un.d_val;
      break;
    case DT_RELACOUNT:  // they name no symbol, and are the first
      relative = entry.d_un.d_val * sizeof(ElfW(Rela));
      break;
    default:
      break;
  }
}

bool needs_vendor(const ElfW(Dyn) * entry, const char* strings) {
  for (; strings && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_NEEDED && is_vendor_library(strings + entry->d_un.d_val)) {
      return true;
    }
  }
  return false;
}

int note_importer(dl_phdr_info* info, size_t, void* context) {
  Search& search = *static_cast<Search*>(context);
  const ElfW(Dyn)* const dynamic = dynamic_of(*info);
  if (!dynamic || !info->dlpi_name[0] || is_vendor_library(info->dlpi_name)) {
    return 0;
  }
  Importer importer = {};
  uint64_t relative = 0;
  for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry) {
    note(*info, *entry, importer, relative);
  }
  if (needs_vendor(dynamic, reinterpret_cast<const char*>(importer.strings))) {
    importer.base = info->dlpi_addr;
    importer.tables[1].address += relative;
    importer.tables[1].bytes -=
        relative < importer.tables[1].bytes ? relative : importer.tables[1].bytes;
    strncpy(importer.path, info->dlpi_name, sizeof importer.path - 1);
    search.into[search.count++] = importer;
  }
  return search.count == search.most;
}

class OwnMemory {
 public:
  OwnMemory() : file_(open("/proc/self/mem", O_RDONLY | O_CLOEXEC)) {}
  ~OwnMemory() {
    if (file_ >= 0) {
      close(file_);
    }
  }
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  size_t read(uint64_t address, void* into, size_t bytes) const {
    const ssize_t got = pread(file_, into, bytes, static_cast<off_t>(address));
    return got > 0 ? static_cast<size_t>(got) : 0;
  }

 private:
  int file_;
};

bool is_ours(const OwnMemory& memory, const Importer& importer, uint64_t symbol_index) {
  ElfW(Sym) symbol;
  char name[96] = {};
  return memory.read(importer.symbols + symbol_index * sizeof symbol, &symbol, sizeof symbol) ==
             sizeof symbol &&
         memory.read(importer.strings + symbol.st_name, name, sizeof name - 1) > 0 &&
         find_symbol(name) != kNoSymbol && entry_of(find_symbol(name));
}

constexpr size_t kAtOnce = 512;

// The words that a run of relocations fills lie side by side, nearly always.
bool any_in(const OwnMemory& memory, const Importer& importer, const ElfW(Rela) * relocations,
            size_t count, bool (*is_theirs)(uint64_t)) {
  uint64_t words[kAtOnce];
  const uint64_t first = relocations[0].r_offset;
  const size_t got = memory.read(importer.base + first, words, sizeof words) / sizeof words[0];
  for (size_t i = 0; i < count; ++i) {
    const uint64_t symbol = ELF64_R_SYM(relocations[i].r_info);
    const uint64_t place = (relocations[i].r_offset - first) / sizeof words[0];
    uint64_t target = 0;
    if (symbol == 0) {
      continue;
    }
    if (place < got) {
      target = words[place];
    } else {
      memory.read(importer.base + relocations[i].r_offset, &target, sizeof target);
    }
    if (is_theirs(target) && is_ours(memory, importer, symbol)) {
      return true;
    }
  }
  return false;
}

}  // namespace

int find_importers(Importer* into, int most) noexcept {
  Search search = {into, most, 0};
  walk_loader(note_importer, &search);
  return search.count;
}

bool any_bound_past_us(const Importer& importer, bool (*is_theirs)(uint64_t)) noexcept {
  const OwnMemory memory;
  for (const Importer::Table& table : importer.tables) {
    for (uint64_t done = 0; done + sizeof(ElfW(Rela)) <= table.bytes;) {
      ElfW(Rela) relocations[kAtOnce];
      const uint64_t left = table.bytes - done;
      const size_t got = memory.read(table.address + done, relocations,
                                     left < sizeof relocations ? left : sizeof relocations) /
                         sizeof relocations[0];
      if (got == 0) {
        return false;
      }
      if (any_in(memory, importer, relocations, got, is_theirs)) {
        return true;
      }
      done += got * sizeof relocations[0];
    }
  }
  return false;
}

}  // namespace traintrace
