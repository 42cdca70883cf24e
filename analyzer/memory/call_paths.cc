#include "analyzer/memory/call_paths.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace traintrace {
namespace {

bool is_interpreter(const ModuleText& module) {
  const std::string_view path = module.path;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("python") || name.starts_with("libpython");
}

bool is_in_interpreter(const ProcessTrace& trace, uint64_t address) {
  const auto module = std::find_if(
      trace.modules.begin(), trace.modules.end(),
      [&](const ModuleText& each) { return address >= each.begin && address < each.end; });
  return module != trace.modules.end() && is_interpreter(*module);
}

bool is_same_line(const PythonFrameText& a, const PythonFrameText& b) {
  return a.line == b.line && a.function == b.function && a.file == b.file;
}

}  // namespace

uint32_t CallPaths::of(uint32_t stack) {
  const auto [known, is_new] = known_.emplace(stack, stack);
  const auto found = trace_.stacks.find(stack);
  if (!is_new || found == trace_.stacks.end() || found->second.python.empty()) {
    return known->second;
  }
  const StackText& text = found->second;
  const auto end = std::find_if(text.native.begin(), text.native.end(), [&](uint64_t address) {
    return is_in_interpreter(trace_, address);
  });
  Path path{stack, Frames(text.native.begin(), end)};
  size_t hash = text.python.size();
  for (const uint64_t address : path.frames) {
    hash = hash * 31 + std::hash<uint64_t>{}(address);
  }
  const auto [first, last] = paths_.equal_range(hash);
  const auto same = std::find_if(first, last, [&](const auto& entry) {
    const std::vector<PythonFrameText>& python = trace_.stacks.at(entry.second.stack).python;
    return entry.second.frames == path.frames &&
           std::equal(python.begin(), python.end(), text.python.begin(), text.python.end(),
                      is_same_line);
  });
  if (same != last) {
    known->second = same->second.stack;
    return known->second;
  }
  paths_.emplace(hash, std::move(path));
  return stack;
}

}  // namespace traintrace
