#include "analyzer/text/embedded.h"

#include <zstd.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace traintrace {

std::vector<EmbeddedFile> embedded_files(const Embedded& embedded) {
  std::string raw(embedded.bytes, '\0');
  const size_t size =
      ZSTD_decompress(raw.data(), raw.size(), embedded.packed.data(), embedded.packed.size());
  if (ZSTD_isError(size) != 0 || size != raw.size()) {
    throw std::logic_error("a text that is built into this program does not unpack");
  }
  std::vector<EmbeddedFile> files;
  std::string_view rest = raw;
  while (!rest.empty()) {
    rest.remove_prefix(1);  // the form feed that begins each
    const size_t end = std::min(rest.find('\f'), rest.size());
    const size_t line = std::min(rest.find('\n'), end);
    const std::string_view text = rest.substr(line, end - line);
    files.push_back({std::string(rest.substr(0, line)), std::string(text.substr(!text.empty()))});
    rest.remove_prefix(end);
  }
  return files;
}

}  // namespace traintrace
