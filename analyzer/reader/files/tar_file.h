// The files in a tar archive, as tar(5) has them: ustar, GNU's and pax's long names.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reader/files/input_file.h"

namespace traintrace {

struct TarPart {
  uint64_t at = 0;      // in the member
  uint64_t offset = 0;  // in the archive
  uint64_t bytes = 0;
};

struct TarMember {
  std::string name;
  uint64_t bytes = 0;
  std::vector<TarPart> parts;  // in order; what lies between them is zero (tar --sparse)
};

// By what stands in its first header.
bool is_tar(const InputFile& file);
constexpr size_t kTarHeaderBytes = 512;
bool is_tar_header(std::string_view head);

// By its name: an archive that is compressed in a way that is not read.
bool is_unknown_archive(const std::string& path);

// Regular files only, in their order.  What follows a damaged header is left out: `problem` says
// so.
std::vector<TarMember> members_of(const InputFile& tar, std::optional<ReadError>& problem);

}  // namespace traintrace
