#include "analyzer/page/page_asset.h"

#include <string>
#include <vector>

#include "analyzer/text/embedded.h"

namespace traintrace {
namespace {

#include "page_asset.inc"

}  // namespace

std::string_view page_asset() {
  static const std::string& page = *[] {
    std::vector<EmbeddedFile> files = embedded_files(kEmbedded);
    return new std::string(files.empty() ? "" : std::move(files.front().text));
  }();
  return page;
}

}  // namespace traintrace
