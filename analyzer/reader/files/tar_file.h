// The files in a tar archive, as tar(5) has them: ustar, GNU's and pax's long names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analyzer/reader/files/input_file.h"

namespace traintrace {

struct TarMember {
  std::string name;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// By what stands in its first header.
bool is_tar(const InputFile& file);
bool is_tar(const std::string& path);

// By its name: an archive that is compressed, which is not read.
bool is_compressed_tar(const std::string& path);

// Regular files only, in their order.  What follows a damaged header is left out: `problem` says
// so.
std::vector<TarMember> members_of(const InputFile& tar, std::optional<ReadError>& problem);

}  // namespace traintrace
