// Files that lie within packs and archives, named as if those were folders.  An archive is a tar
// file, which gzip or zstd may have packed, or one packed file: x.ttz.zst/x.ttz.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/reader/files/input_file.h"
#include "format/pack.h"

namespace traintrace {

// `path` leads through a file.
Result<InputFile> open_within(const std::string& path);

// By what is in it; one that is packed and not a tar file holds a trace.
bool is_archive(const std::string& path);
// The paths of all files in this archive; what is wrong with it is added to `errors`.
std::vector<std::string> paths_in_archive(const std::string& path, std::vector<ReadError>& errors);

// Whether this file is a pack; and the path of the trace in it.
bool is_pack(const std::string& path);
std::string trace_in_pack(const std::string& path);
// Whether it is one in which nothing is damaged; reads all of it.
bool is_whole_pack(const std::string& path);
// The head of the pack that this path leads through.
std::optional<format::PackHead> pack_around(const std::string& path);
// Which bytes of a trace are in the block at that place of the pack that this path leads through;
// none: no block of the trace is there.
struct PackedBytes {
  uint64_t offset = 0, bytes = 0;
};
PackedBytes trace_bytes_at(const std::string& path, uint64_t place);

}  // namespace traintrace
