// Which files are traces of PyTorch's profiler.
#include <algorithm>
#include <filesystem>
#include <iterator>

#include "analyzer/importers/json_value.h"
#include "analyzer/importers/kineto/event_array.h"
#include "analyzer/importers/kineto/kineto.h"
#include "analyzer/importers/text_file.h"
#include "analyzer/reader/files/input_file.h"
#include "analyzer/reader/silent_inputs.h"

namespace traintrace {
namespace {

// By its first bytes: cheap, for folders of thousands of other files.
bool may_be_json(const std::string& path) {
  constexpr size_t kLook = 64;
  const std::string text = head_of(path, kLook);
  const size_t first = json_begin(text);
  return text.starts_with("\x1f\x8b") || first == text.npos || text[first] == '{' ||
         text[first] == '[';
}

}  // namespace

bool looks_like_kineto(const std::string& path) {
  if (!may_be_json(path)) {
    return false;
  }
  constexpr size_t kLook = 64 << 10;
  Result<TextFile> file = TextFile::open(path);
  std::string text;
  if (!file) {
    return false;
  }
  if (const std::optional<ReadError> error = file->read(text, kLook)) {
    // A wrong checksum at the end of the first piece costs all of it: that is to be told.
    return !error->truncated && path.ends_with(".json.gz");
  }
  const size_t first = json_begin(text);
  const auto has = [&](std::string_view key) { return text.find(key) != text.npos; };
  if (first != text.npos && text[first] == '[') {  // the events alone
    const size_t second = text.find_first_not_of(" \t\r\n", first + 1);
    return second != text.npos && text[second] == '{' && has("\"ph\"") && has("\"ts\"");
  }
  return first != text.npos && text[first] == '{' &&
         (has("\"traceEvents\"") || has("\"schemaVersion\"") || are_event_lines(text));
}

std::vector<std::string> find_kineto(std::span<const std::string> arguments) {
  namespace fs = std::filesystem;
  std::vector<std::string> found;
  for (const std::string& argument : arguments) {
    std::error_code none;
    if (fs::is_regular_file(argument, none) && looks_like_kineto(argument)) {
      found.push_back(argument);
    }
    if (!fs::is_directory(argument, none)) {
      continue;
    }
    std::vector<std::string> listed;
    for (const fs::directory_entry& entry : fs::directory_iterator(argument, none)) {
      listed.push_back(entry.path());
    }
    take_out_silent_files(listed);
    std::copy_if(listed.begin(), listed.end(), std::back_inserter(found),
                 [&](const std::string& path) {
                   return fs::is_regular_file(path, none) && looks_like_kineto(path);
                 });
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace traintrace
