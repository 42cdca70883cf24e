#include "analyzer/model/process/library_header.h"

#include <algorithm>
#include <initializer_list>

namespace traintrace {
namespace {

bool holds_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

// "/usr/local/cuda-13.0/include/..", "/apps/cuda/12.4/include/..",
// "../targets/sbsa-linux/include/.."; a folder "cuda" that has headers may be the user's too.
bool is_of_toolkit(std::string_view file) {
  const size_t include = file.find("/include/");
  if (include == std::string_view::npos) {
    return false;
  }
  const auto is_digit = [](std::string_view text) { return text.find_first_of("0123456789") == 0; };
  const std::string_view folder = file.substr(0, include);
  const std::string_view name = folder.substr(folder.rfind('/') + 1);
  if (is_digit(name)) {
    return folder.substr(0, folder.size() - name.size()).ends_with("/cuda/");
  }
  return (name.starts_with("cuda-") && is_digit(name.substr(5))) ||
         (name == "cuda" && (file.starts_with("/usr/") || file.starts_with("/opt/"))) ||
         (name.ends_with("-linux") && holds_any(folder, {"/targets/"}));
}

}  // namespace

bool is_library_header(std::string_view file) {
  return holds_any(file, {"/usr/include/", "/usr/local/include/", "/include/c++/",
                          "/cuda_runtime.h", "/site-packages/", "/dist-packages/"}) ||
         is_of_toolkit(file);
}

}  // namespace traintrace
