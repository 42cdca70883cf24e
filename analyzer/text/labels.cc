#include "analyzer/text/labels.h"

#include <algorithm>
#include <map>

#include "analyzer/text/words.h"

namespace traintrace {
namespace {

// A label is a word that `=`, `/` and numbers cannot be mixed up with.
bool is_label(const std::string& name) {
  const auto fits = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  return !name.empty() && (name[0] < '0' || name[0] > '9') &&
         std::all_of(name.begin(), name.end(), fits);
}

}  // namespace

std::vector<std::string> communicator_labels(const ProcessTrace& trace) {
  std::map<std::string, int> uses;
  for (const CommunicatorText& communicator : trace.communicators) {
    ++uses[communicator.name];
  }
  std::vector<std::string> labels;
  for (const CommunicatorText& communicator : trace.communicators) {
    const bool own = is_label(communicator.name) && uses[communicator.name] == 1;
    labels.push_back(own ? communicator.name : std::to_string(labels.size() + 1));
  }
  return labels;
}

std::string python_frame_word(const PythonFrameText& frame) {
  return frame.file + ':' + std::to_string(frame.line) + ':' + frame.function;
}

const ModuleText* module_of(const ProcessTrace& trace, uint64_t address) {
  for (const ModuleText& module : trace.modules) {
    if (address >= module.begin && address < module.end) {
      return &module;
    }
  }
  return nullptr;
}

std::string native_frame_word(const ProcessTrace& trace, uint64_t address) {
  std::string word;
  append_hex(word, address);
  if (const ModuleText* module = module_of(trace, address)) {
    std::string place = module->path.substr(module->path.rfind('/') + 1) + '+';
    append_hex(place, address - module->bias);
    word += '(' + place + ')';
  }
  return quoted(word);
}

bool parse_frame(std::string_view word, StackText& stack) {
  if (word.starts_with("0x")) {
    const auto address = parse_unsigned(word.substr(0, word.find('(')));
    if (address) {
      stack.native.push_back(*address);
      return true;
    }
  }
  const size_t last = word.rfind(':');
  if (last == word.npos) {
    return false;
  }
  if (const auto line = parse_unsigned(word.substr(last + 1)); line && *line < 0x7fffffff) {
    stack.python.push_back({"", std::string(word.substr(0, last)), static_cast<int>(*line)});
    return true;
  }
  // C++ has colons in the names of functions.
  for (size_t end = last; end != 0;) {
    const size_t begin = word.rfind(':', end - 1);
    if (begin == word.npos) {
      break;
    }
    const auto line = parse_unsigned(word.substr(begin + 1, end - begin - 1));
    if (line && *line < 0x7fffffff) {
      stack.python.push_back({std::string(word.substr(end + 1)), std::string(word.substr(0, begin)),
                              static_cast<int>(*line)});
      return true;
    }
    end = begin;
  }
  return false;
}

}  // namespace traintrace
