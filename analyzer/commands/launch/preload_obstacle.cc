#include "analyzer/commands/launch/preload_obstacle.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace traintrace {
namespace {

namespace fs = std::filesystem;

std::string path_of(const std::string& program) {
  const char* const list = std::getenv("PATH");
  if (program.find('/') != std::string::npos || list == nullptr) {
    return program;
  }
  std::string_view rest = list;
  while (true) {
    const size_t colon = rest.find(':');
    const fs::path folder = rest.substr(0, colon);
    std::string path = (folder.empty() ? fs::path(".") : folder) / program;
    if (access(path.c_str(), X_OK) == 0) {
      return path;
    }
    if (colon == rest.npos) {
      return program;
    }
    rest.remove_prefix(colon + 1);
  }
}

struct Descriptor {
  int number;
  explicit Descriptor(const std::string& path)
      : number(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~Descriptor() { close(number); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

template <class Value>
bool read_at(int file, uint64_t offset, Value& value) {
  return pread(file, &value, sizeof value, static_cast<off_t>(offset)) == sizeof value;
}

// Programs that are loaded name their loader.
bool names_a_loader(int file, const Elf64_Ehdr& header) {
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (read_at(file, header.e_phoff + i * header.e_phentsize, segment) &&
        segment.p_type == PT_INTERP) {
      return true;
    }
  }
  return false;
}

// Of this program's own header: the tracer beside it is for the same machine.
bool is_for_this_machine(const Elf64_Ehdr& header) {
#ifdef __x86_64__
  constexpr int kMachine = EM_X86_64;
#else
  constexpr int kMachine = EM_AARCH64;
#endif
  return header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == kMachine;
}

}  // namespace

std::string preload_obstacle(const std::string& program) {
  const Descriptor file(path_of(program));
  struct stat status = {};
  Elf64_Ehdr header;
  if (fstat(file.number, &status) != 0 || !S_ISREG(status.st_mode) ||
      !read_at(file.number, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return "";
  }
  if (!is_for_this_machine(header)) {
    return "is for another machine than libtraintrace.so";
  }
  if (!names_a_loader(file.number, header)) {
    return "is linked statically, so no library can be preloaded into it";
  }
  if ((status.st_mode & (S_ISUID | S_ISGID)) != 0) {
    return "has the rights of another user (set-user-id), so nothing is preloaded into it";
  }
  return "";
}

}  // namespace traintrace
