// What a compressed file unpacks to, read as a file: an archive of traces, a trace.  It is unpacked
// once, into a file without a name where others put theirs (TMPDIR), which takes no room for what
// is zero.
#pragma once

#include <memory>
#include <optional>

#include "analyzer/reader/files/input_file.h"

namespace traintrace {

struct UnpackedFile {
  std::shared_ptr<const ByteSource> bytes;
  std::optional<ReadError> problem;  // why it is not all of it
};

// An error: none of it can be read, or it unpacks to far more than traces do.
Result<UnpackedFile> unpacked_file(const InputFile& packed);

}  // namespace traintrace
