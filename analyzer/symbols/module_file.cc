#include "analyzer/symbols/module_file.h"

#include <elfutils/libdwfl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace traintrace {
namespace {

bool is_trusted(const char* file) {
  struct stat status = {};
  return file != nullptr && stat(file, &status) == 0 &&
         (status.st_uid == 0 || status.st_uid == geteuid());
}

// "/usr/lib/debug/.build-id/ab/cdef...debug"
std::string place_of(Dwfl_Module* module) {
  const unsigned char* bits = nullptr;
  GElf_Addr ignored = 0;
  const int bytes = dwfl_module_build_id(module, &bits, &ignored);
  std::string hex;
  for (int i = 0; i < bytes; ++i) {
    hex += "0123456789abcdef"[bits[i] / 16];
    hex += "0123456789abcdef"[bits[i] % 16];
  }
  return bytes < 2
             ? ""
             : "/usr/lib/debug/.build-id/" + hex.substr(0, 2) + '/' + hex.substr(2) + ".debug";
}

}  // namespace

Result<InputFile> open_module(const std::string& path) {
  constexpr uint64_t kMostBytes = uint64_t{16} << 30;  // libraries of 3 GiB exist
  Result<InputFile> file = InputFile::open(path);
  if (!file) {
    return file;
  }
  std::byte magic[4] = {};
  if (file->read(0, magic) != sizeof magic || std::memcmp(magic, ELFMAG, sizeof magic) != 0 ||
      file->bytes() > kMostBytes) {
    return ReadError{path, 0, "expected an ELF file", true, false};
  }
  return file;
}

int find_debug_file(Dwfl_Module* module, void** data, const char* name, Dwarf_Addr base,
                    const char* file, const char* debug_link, GElf_Word checksum,
                    char** debug_file) {
  if (is_trusted(file)) {
    return dwfl_standard_find_debuginfo(module, data, name, base, file, debug_link, checksum,
                                        debug_file);
  }
  const std::string place = place_of(module);
  Result<InputFile> found = open_module(place);
  if (!found) {
    return -1;
  }
  *debug_file = strdup(place.c_str());
  return found->release();
}

}  // namespace traintrace
