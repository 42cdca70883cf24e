#include "analyzer/reader/trace_bytes.h"

namespace traintrace {

Result<TraceBytes> TraceBytes::open(const std::string& path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file) {
    return file.error();
  }
  return TraceBytes(std::move(*file));
}

}  // namespace traintrace
