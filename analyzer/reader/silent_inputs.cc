#include "analyzer/reader/silent_inputs.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "analyzer/isolation/ask_each.h"
#include "analyzer/reader/files/input_file.h"

namespace traintrace {
namespace {

// A disk that has to be woken, or a folder that is mounted when somebody looks, takes its time.
constexpr AskLimits kLimits = {std::chrono::seconds(10), 3};

std::vector<ReadError>& silent() {
  static auto& all = *new std::vector<ReadError>;
  return all;
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
  std::transform(
      others.begin(), others.end(), std::back_inserter(silent()), [](const std::string& name) {
        return ReadError{name, 0, "does not answer within 10 s: is its file server gone?", true};
      });
  named.erase(answering, named.end());
}

const std::vector<ReadError>& silent_inputs() {
  return silent();
}

}  // namespace traintrace
