#include "analyzer/reader/files/text_bytes.h"

#include <algorithm>

#include "analyzer/reader/files/decompress.h"
#include "analyzer/reader/files/file_bytes.h"
#include "analyzer/reader/files/input_file.h"

namespace traintrace {

std::optional<std::string> text_of_file(const std::string& path, size_t most) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // before UTF-8
  if (packing_of(head_of(path, kPackingMagicBytes)) == Packing::kNone) {
    std::optional<std::string> bytes = bytes_of_file(path, most);
    if (bytes && bytes->starts_with(kByteOrderMark)) {
      bytes->erase(0, kByteOrderMark.size());
    }
    return bytes;
  }
  const Result<InputFile> file = InputFile::open(path);
  if (!file) {
    return std::nullopt;
  }
  std::string text;
  decompress(*file, [&](std::string_view part) {
    text += part;
    return text.size() < most;
  });
  text.resize(std::min(text.size(), most));
  return text;
}

// "start 1700000000.000000000", then a line about the first process.
bool is_dump_text(const std::string& path) {
  constexpr std::string_view kStart = "start ";
  constexpr size_t kLook = 256;
  const std::string text = text_of_file(path, kLook).value_or("");
  const size_t line = text.find('\n');
  return text.starts_with(kStart) && line != text.npos &&
         text.find_first_not_of("0123456789.", kStart.size()) == line &&
         text.compare(line + 1, 8, "process ") == 0;
}

}  // namespace traintrace
