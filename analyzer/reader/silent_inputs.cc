#include "analyzer/reader/silent_inputs.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "analyzer/isolation/ask_each.h"
#include "analyzer/isolation/silence.h"
#include "analyzer/reader/files/input_file.h"

namespace traintrace {
namespace {

// A disk that has to be woken, or a folder that is mounted when somebody looks, takes its time.
constexpr AskLimits kLimits = {std::chrono::seconds(10), 3};

std::vector<ReadError>& silent() {
  static auto& all = *new std::vector<ReadError>;
  return all;
}

ReadError silent_error(const std::string& name) {
  return {name, 0, "does not answer within 10 s: is its file server gone?", true};
}

// Nobody wants to know what it says.
std::string look_at(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(name, ignored)) {
    const fs::directory_iterator first(name, ignored);
  } else {
    head_of(name, 1);
  }
  return "";
}

}  // namespace

void take_out_silent(std::vector<std::string>& named) {
  if (named.empty()) {
    return;
  }
  const std::map<std::string, std::string> answers =
      ask_each({named.begin(), named.end()}, kLimits, look_at);
  const auto answering = std::stable_partition(
      named.begin(), named.end(), [&](const std::string& name) { return answers.contains(name); });
  const std::set<std::string> others(answering, named.end());
  std::transform(others.begin(), others.end(), std::back_inserter(silent()), silent_error);
  named.erase(answering, named.end());
}

const std::vector<ReadError>& silent_inputs() {
  return silent();
}

void take_out_silent_files(std::vector<std::string>& paths) {
  if (!is_anything_silent()) {
    return;
  }
  std::erase_if(paths, is_silent_file);
  const std::set<std::string> answering =
      answering_among(paths, kLimits.patience, [](const std::string& path) { head_of(path, 1); });
  const auto others =
      std::stable_partition(paths.begin(), paths.end(),
                            [&](const std::string& path) { return answering.contains(path); });
  std::transform(others, paths.end(), std::back_inserter(silent()), silent_error);
  paths.erase(others, paths.end());
}

bool is_silent_file(const std::string& path) {
  return std::any_of(silent().begin(), silent().end(),
                     [&](const ReadError& error) { return error.file == path; });
}

}  // namespace traintrace
