#include "analyzer/importers/whole_file.h"

#include "analyzer/reader/files/input_file.h"

namespace traintrace {

Result<WholeFile> read_whole_file(const std::string& path) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  const Result<InputFile> file = InputFile::open(path);
  if (!file) {
    return file.error();
  }
  if (file->bytes() > kMostBytes) {
    return ReadError{path, 0, "expected a file of at most 1 GiB", true, false};
  }
  const auto size = static_cast<size_t>(file->bytes());
  auto bytes = std::make_unique_for_overwrite<char[]>(size + 1);
  const size_t got = file->read(0, std::as_writable_bytes(std::span(bytes.get(), size)));
  return WholeFile(std::move(bytes), got, file->modified_ns());
}

}  // namespace traintrace
