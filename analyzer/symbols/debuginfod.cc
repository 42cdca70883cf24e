#include "analyzer/symbols/debuginfod.h"

#include <cstdlib>
#include <string>

namespace traintrace {
namespace {

constexpr const char* kVariable = "DEBUGINFOD_URLS";  // debuginfod_find_debuginfo(3)

std::string& forbidden() {
  static auto& urls = *new std::string;
  return urls;
}

}  // namespace

// elfutils reads the variable each time that it looks for a file.
void forbid_debuginfod() {
  if (const char* const urls = std::getenv(kVariable)) {
    forbidden() = urls;
    unsetenv(kVariable);
  }
}

void allow_debuginfod() {
  if (!forbidden().empty()) {
    setenv(kVariable, forbidden().c_str(), 1);
  }
}

}  // namespace traintrace
