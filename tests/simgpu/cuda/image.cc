#include "cuda/image.h"

#include <elf.h>

#include <cstring>

namespace simgpu {
namespace {

// Layouts as found in files written by nvcc 13.0 (`nvcc -fatbin`, `nvcc -cubin`, read with readelf
// and xxd).
constexpr uint32_t kWrapperMagic = 0x466243b1;
constexpr uint32_t kFatbinMagic = 0xba55ed50;
constexpr uint16_t kEntryIsElf = 2;

struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const void* data;
};
struct FatbinHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t body_bytes;
};
struct FatbinEntry {
  uint16_t kind;
  uint16_t version;
  uint32_t header_bytes;
  uint64_t body_bytes;
};

// One attribute of a .nv.info.KERNEL section that describes a parameter: format 4, attribute 0x17.
struct ParameterInfo {
  uint32_t index;
  uint16_t ordinal;
  uint16_t offset;
  uint32_t packed;  // bytes << 18 | flags
};
constexpr uint8_t kSizedFormat = 4;
constexpr uint8_t kParameterAttribute = 0x17;

class Cubin {
 public:
  explicit Cubin(const uint8_t* base) : base_(base) {
    std::memcpy(&header_, base, sizeof header_);
    names_ = at(section(header_.e_shstrndx).sh_offset);
  }

  void read(Image& image) const {
    for (unsigned i = 1; i < header_.e_shnum; ++i) {
      const Elf64_Shdr table = section(i);
      if (table.sh_type == SHT_SYMTAB) {
        read_symbols(table, image);
      }
    }
  }

 private:
  const char* at(uint64_t offset) const { return reinterpret_cast<const char*>(base_ + offset); }

  Elf64_Shdr section(unsigned index) const {
    Elf64_Shdr out;
    std::memcpy(&out, at(header_.e_shoff + index * sizeof out), sizeof out);
    return out;
  }

  void read_symbols(const Elf64_Shdr& table, Image& image) const {
    const char* strings = at(section(table.sh_link).sh_offset);
    for (uint64_t at_byte = 0; at_byte + sizeof(Elf64_Sym) <= table.sh_size;
         at_byte += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, at(table.sh_offset + at_byte), sizeof symbol);
      const std::string name = strings + symbol.st_name;
      const bool defined = symbol.st_shndx != SHN_UNDEF && symbol.st_shndx < header_.e_shnum;
      if (defined && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC) {
        add_kernel(name, image);
      } else if (defined && ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT) {
        image.globals[name] = global(symbol);
      }
    }
  }

  ImageGlobal global(const Elf64_Sym& symbol) const {
    ImageGlobal out;
    out.bytes = symbol.st_size;
    const Elf64_Shdr holder = section(symbol.st_shndx);
    if (holder.sh_type == SHT_PROGBITS && symbol.st_value + symbol.st_size <= holder.sh_size) {
      const char* begin = at(holder.sh_offset + symbol.st_value);
      out.initial.assign(begin, begin + symbol.st_size);
    }
    return out;
  }

  // A device function that is no kernel has a symbol but no .nv.constant0 section.
  void add_kernel(const std::string& name, Image& image) const {
    bool is_kernel = false;
    std::vector<KernelParameter> parameters;
    for (unsigned i = 1; i < header_.e_shnum; ++i) {
      const Elf64_Shdr info = section(i);
      const std::string section_name = names_ + info.sh_name;
      is_kernel = is_kernel || section_name == ".nv.constant0." + name;
      if (section_name == ".nv.info." + name) {
        parameters = read_parameters(at(info.sh_offset), info.sh_size);
      }
    }
    if (is_kernel) {
      image.kernels[name] = std::move(parameters);
    }
  }

  static std::vector<KernelParameter> read_parameters(const char* data, uint64_t bytes) {
    std::vector<KernelParameter> out;
    for (uint64_t i = 0; i + 4 <= bytes;) {
      uint16_t length = 0;
      std::memcpy(&length, data + i + 2, sizeof length);
      const bool sized = static_cast<uint8_t>(data[i]) == kSizedFormat;
      ParameterInfo info;
      if (sized && static_cast<uint8_t>(data[i + 1]) == kParameterAttribute &&
          length == sizeof info && i + 4 + length <= bytes) {
        std::memcpy(&info, data + i + 4, sizeof info);
        if (out.size() <= info.ordinal) {
          out.resize(info.ordinal + 1);
        }
        out[info.ordinal] = {info.offset, info.packed >> 18};
      }
      i += 4 + (sized ? length : 0);
    }
    return out;
  }

  const uint8_t* base_;
  Elf64_Ehdr header_;
  const char* names_;
};

bool is_elf(const uint8_t* data) {
  return std::memcmp(data, ELFMAG, SELFMAG) == 0;
}

// Complete only if every entry could be read.
void read_fatbin(const uint8_t* data, const FatbinHeader& header, Image& image) {
  const uint8_t* at = data + header.header_bytes;
  const uint8_t* const end = at + header.body_bytes;
  image.complete = at < end;
  while (at + sizeof(FatbinEntry) <= end) {
    FatbinEntry entry;
    std::memcpy(&entry, at, sizeof entry);
    const uint8_t* const body = at + entry.header_bytes;
    const bool readable =
        entry.kind == kEntryIsElf && body + sizeof(Elf64_Ehdr) <= end && is_elf(body);
    if (readable) {
      Cubin(body).read(image);
    }
    // PTX beside a cubin names the same kernels; anything else unread may hide some.
    image.complete = image.complete && (readable || entry.kind != kEntryIsElf);
    at = body + entry.body_bytes;
  }
  image.complete = image.complete && !image.kernels.empty();
}

}  // namespace

Image read_image(const void* data) {
  Image image;
  const auto* bytes = static_cast<const uint8_t*>(data);
  Wrapper wrapper;
  std::memcpy(&wrapper, bytes, sizeof wrapper.magic);
  if (wrapper.magic == kWrapperMagic) {
    std::memcpy(&wrapper, bytes, sizeof wrapper);
    bytes = static_cast<const uint8_t*>(wrapper.data);
  }
  FatbinHeader header;
  std::memcpy(&header.magic, bytes, sizeof header.magic);
  if (header.magic == kFatbinMagic) {
    std::memcpy(&header, bytes, sizeof header);
    read_fatbin(bytes, header, image);
  } else if (is_elf(bytes)) {
    Cubin(bytes).read(image);
    image.complete = true;
  }
  return image;
}

}  // namespace simgpu
