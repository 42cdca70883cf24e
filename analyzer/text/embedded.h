// Files that are built into the program, packed (cmake/EmbedText.cmake).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace traintrace {

struct Embedded {
  std::span<const unsigned char> packed;  // a frame of zstd
  size_t bytes;                           // that it holds
};

struct EmbeddedFile {
  std::string name;
  std::string text;
};

std::vector<EmbeddedFile> embedded_files(const Embedded& embedded);

}  // namespace traintrace
