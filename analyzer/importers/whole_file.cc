#include "analyzer/importers/whole_file.h"

#include <algorithm>
#include <span>
#include <utility>

#include "analyzer/reader/files/budget.h"
#include "analyzer/reader/files/decompress.h"
#include "analyzer/reader/files/input_file.h"
#include "analyzer/reader/files/text_bytes.h"

namespace traintrace {
namespace {

constexpr uint64_t kMostBytesOfWhole = uint64_t{1} << 30;
// Snapshots are packed to a tenth, logs that repeat themselves to a hundredth.
constexpr uint64_t kMostRatioOfWhole = 256;
constexpr uint64_t kFreeBytesOfWhole = uint64_t{16} << 20;

Result<std::string> unpack(const InputFile& file) {
  Budget budget(
      {.bytes = std::min(kMostBytesOfWhole, kFreeBytesOfWhole + kMostRatioOfWhole * file.bytes())});
  std::string text;
  const Unpacking ended = decompress(file, [&](std::string_view part) {
    if (!budget.take_bytes(part.size())) {
      return false;
    }
    text += part;
    return true;
  });
  if (ended == Unpacking::kWhole) {
    return text;
  }
  const bool is_cut = ended == Unpacking::kCut;
  return ReadError{file.path(), file.bytes(),
                   is_cut ? "the compressed file is truncated"
                   : ended == Unpacking::kStopped
                       ? "expected at most 256 times what it has packed, and 1 GiB"
                       : "expected intact gzip or zstd data",
                   true, is_cut};
}

}  // namespace

Result<WholeFile> read_whole_file(const std::string& path) {
  const Result<InputFile> file = InputFile::open(path);
  if (!file) {
    return file.error();
  }
  if (packing_of(*file) != Packing::kNone) {
    Result<std::string> text = unpack(*file);
    if (!text) {
      return text.error();
    }
    return WholeFile(std::move(*text), file->modified_ns());
  }
  if (file->bytes() > kMostBytesOfWhole) {
    return ReadError{path, 0, "expected a file of at most 1 GiB", true, false};
  }
  const auto size = static_cast<size_t>(file->bytes());
  auto bytes = std::make_unique_for_overwrite<char[]>(size + 1);
  const size_t got = file->read(0, std::as_writable_bytes(std::span(bytes.get(), size)));
  return WholeFile(std::move(bytes), got, file->modified_ns());
}

std::string content_head(const std::string& path, size_t bytes) {
  return text_of_file(path, bytes).value_or("");
}

std::string content_tail(const std::string& path, size_t bytes) {
  const Result<InputFile> file = InputFile::open(path);
  if (!file || packing_of(*file) == Packing::kNone) {
    return file ? tail_of(path, bytes) : "";
  }
  Budget budget({.bytes = kFreeBytesOfWhole + kMostRatioOfWhole * file->bytes()});
  std::string tail;
  decompress(*file, [&](std::string_view part) {
    tail += part;
    if (tail.size() > 2 * bytes) {
      tail.erase(0, tail.size() - bytes);
    }
    return budget.take_bytes(part.size());
  });
  tail.erase(0, tail.size() - std::min(bytes, tail.size()));
  return tail;
}

}  // namespace traintrace
