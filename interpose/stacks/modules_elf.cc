#include "interpose/stacks/modules_elf.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace traintrace {
namespace {

void read_build_id(uint64_t address, uint64_t bytes, Module& into) noexcept {
  const uint64_t end = address + bytes;
  while (end - address >= sizeof(ElfW(Nhdr))) {
    const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(address);
    const uint64_t name = address + sizeof(ElfW(Nhdr));
    const uint64_t text = name + ((uint64_t{note->n_namesz} + 3) & ~uint64_t{3});
    const uint64_t next = text + ((uint64_t{note->n_descsz} + 3) & ~uint64_t{3});
    if (next > end) {
      return;
    }
    if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
        memcmp(reinterpret_cast<const void*>(name), "GNU", 4) == 0) {
      const size_t length = std::min<size_t>(note->n_descsz, Module::kMaxBuildIdBytes);
      memcpy(into.build_id, reinterpret_cast<const void*>(text), length);
      into.build_id_bytes = static_cast<uint8_t>(length);
      return;
    }
    address = next;
  }
}

bool in_readable_segment(const Module& module, uint64_t address, uint64_t bytes) noexcept {
  const Segment* segment = segment_of(module, address);
  return segment != nullptr && segment->readable && bytes <= segment->end - address;
}

// The loader's lock is held, which TSan does not see; it knows of the name's characters, not of the
// zero after them.
__attribute__((no_sanitize("thread"))) size_t copy_name(const char* name, char* into,
                                                        size_t bytes) noexcept {
  size_t length = 0;
  while (length + 1 < bytes && name[length] != '\0') {
    into[length] = name[length];
    ++length;
  }
  return length;
}

void read_path(const dl_phdr_info& info, Module& into) noexcept {
  if (info.dlpi_name != nullptr && info.dlpi_name[0] != '\0') {
    into.path[copy_name(info.dlpi_name, into.path, sizeof into.path)] = '\0';
    return;
  }
  // The loader has no name for the program itself.
  const ssize_t length = readlink("/proc/self/exe", into.path, sizeof into.path - 1);
  into.path[length < 0 ? 0 : length] = '\0';
}

void read_segments(const dl_phdr_info& info, Module& into) noexcept {
  into.begin = UINT64_MAX;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    if (header.p_type != PT_LOAD || header.p_memsz == 0) {
      continue;
    }
    const uint64_t begin = info.dlpi_addr + header.p_vaddr;
    const uint64_t end = begin + header.p_memsz;
    into.begin = std::min(into.begin, begin);
    into.end = std::max(into.end, end);
    if (into.segment_count < Module::kMaxSegments) {
      into.segments[into.segment_count++] = {begin, end, (header.p_flags & PF_R) != 0,
                                             (header.p_flags & PF_X) != 0};
    }
  }
}

}  // namespace

bool read_layout(const dl_phdr_info& info, Module& into) noexcept {
  into.bias = info.dlpi_addr;
  read_segments(info, into);
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    const uint64_t address = info.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME && in_readable_segment(into, address, header.p_memsz)) {
      into.eh_frame_hdr = address;
      into.eh_frame_hdr_bytes = static_cast<uint32_t>(header.p_memsz);
    }
  }
  return into.segment_count > 0;
}

bool read_module(const dl_phdr_info& info, Module& into) noexcept {
  into = {};
  if (!read_layout(info, into)) {
    return false;
  }
  for (int i = 0; i < info.dlpi_phnum && into.build_id_bytes == 0; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    const uint64_t address = info.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_NOTE && in_readable_segment(into, address, header.p_memsz)) {
      read_build_id(address, header.p_memsz, into);
    }
  }
  read_path(info, into);
  return true;
}

const Segment* segment_of(const Module& module, uint64_t address) noexcept {
  for (size_t i = 0; i < module.segment_count; ++i) {
    const Segment& segment = module.segments[i];
    if (address >= segment.begin && address < segment.end) {
      return &segment;
    }
  }
  return nullptr;
}

}  // namespace traintrace
