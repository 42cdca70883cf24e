#include "analyzer/memory/growth/call_paths.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "format/hashes.h"

namespace traintrace {
namespace {

bool is_interpreter(const ModuleText& module) {
  const std::string_view path = module.path;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("python") || name.starts_with("libpython");
}

bool is_same_line(const PythonFrameText& a, const PythonFrameText& b) {
  return a.line == b.line && a.function == b.function && a.file == b.file;
}

// Paths of one hash that are compared: more of them are made to be alike, in a trace that is not
// the recorder's.
constexpr size_t kMostAlike = 16;

uint64_t hash_of(const std::vector<uint64_t>& native, const std::vector<PythonFrameText>& python) {
  uint64_t hash = python.size();
  for (const uint64_t address : native) {
    hash = format::mixed(hash, address);
  }
  for (const PythonFrameText& frame : python) {
    hash = format::mixed(hash, static_cast<uint64_t>(frame.line));
    hash = format::mixed(hash, std::hash<std::string_view>{}(frame.function));
    hash = format::mixed(hash, std::hash<std::string_view>{}(frame.file));
  }
  return hash;
}

}  // namespace

CallPaths::CallPaths(const ProcessTrace& trace) : trace_(trace) {
  for (const ModuleText& module : trace.modules) {
    if (is_interpreter(module)) {
      interpreter_.push_back({module.begin, module.end});
    }
  }
}

bool CallPaths::is_in_interpreter(uint64_t address) const {
  return std::any_of(interpreter_.begin(), interpreter_.end(), [&](const Range& range) {
    return address >= range.begin && address < range.end;
  });
}

uint32_t CallPaths::of(uint32_t stack) {
  const auto [known, is_new] = known_.emplace(stack, stack);
  const auto found = trace_.stacks.find(stack);
  if (!is_new || found == trace_.stacks.end() || found->second.python.empty()) {
    return known->second;
  }
  const StackText& text = found->second;
  const auto end = std::find_if(text.native.begin(), text.native.end(),
                                [&](uint64_t address) { return is_in_interpreter(address); });
  Path path{stack, Frames(text.native.begin(), end)};
  std::vector<Path>& alike = paths_[hash_of(path.frames, text.python)];
  const auto same = std::find_if(alike.begin(), alike.end(), [&](const Path& each) {
    const std::vector<PythonFrameText>& python = trace_.stacks.at(each.stack).python;
    return each.frames == path.frames &&
           std::equal(python.begin(), python.end(), text.python.begin(), text.python.end(),
                      is_same_line);
  });
  if (same != alike.end()) {
    known->second = same->stack;
  } else if (alike.size() < kMostAlike) {
    alike.push_back(std::move(path));
  }
  return known->second;
}

}  // namespace traintrace
