#include "analyzer/reader/files/trace_bytes.h"

#include "analyzer/reader/files/opened_inputs.h"

namespace traintrace {

Result<TraceBytes> TraceBytes::open(const std::string& path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file) {
    return file.error();
  }
  remember_input(path);
  return TraceBytes(std::move(*file));
}

}  // namespace traintrace
