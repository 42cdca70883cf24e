#include "analyzer/symbols/symbolizer.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "analyzer/symbols/demangled_size.h"
#include "analyzer/symbols/module_symbols.h"
#include "analyzer/text/labels.h"

namespace traintrace {

std::string native_frame_text(const NativeFrame& frame) {
  const std::string module = frame.module.substr(frame.module.rfind('/') + 1);
  if (frame.function.empty()) {
    return module.empty() ? fmt::format("{:#x}", frame.offset)
                          : fmt::format("{}+{:#x}", module, frame.offset);
  }
  if (frame.file.empty()) {
    return fmt::format("{} ({})", frame.function, module);
  }
  return fmt::format("{} at {}:{}", frame.function, frame.file, frame.line);
}

namespace {

// Whether it is known to become no more than can be shown and is soon made.
bool is_soon_demangled(std::string_view symbol) {
  constexpr size_t kMostBytes = 1 << 20;
  constexpr auto kMostReferences = 16;  // each may double what is there
  const std::optional<size_t> bytes = demangled_size(symbol);
  const auto references =
      std::count_if(symbol.begin(), symbol.end(), [](char c) { return c == 'S' || c == 'T'; });
  return bytes ? *bytes <= kMostBytes : references <= kMostReferences;
}

}  // namespace

std::string demangled(const std::string& symbol) {
  constexpr size_t kLongest = 16 << 10;
  if (symbol.size() > kLongest) {
    return symbol.substr(0, kLongest) + "..";
  }
  if (!symbol.starts_with("_Z") || !is_soon_demangled(symbol)) {
    return symbol;
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text != nullptr && std::strlen(text.get()) <= kLongest ? text.get()
                                                                               : symbol;
}

Symbolizer::Symbolizer() = default;
Symbolizer::~Symbolizer() = default;

void Symbolizer::learn(const ProcessTrace& trace) {
  for (const ModuleText& module : trace.modules) {
    if (!module.build_id.empty()) {
      paths_[module.build_id].insert(module.path);
    }
  }
}

ModuleSymbols& Symbolizer::symbols_of(const ModuleKey& module) {
  std::unique_ptr<ModuleSymbols>& symbols = modules_[module];
  if (symbols == nullptr) {
    symbols = std::make_unique<ModuleSymbols>(module.first, module.second);
  }
  return *symbols;
}

std::vector<NativeFrame> Symbolizer::frames_of(const ModuleText& module, uint64_t offset) {
  std::vector<NativeFrame> frames = symbols_of({module.path, module.build_id}).frames(offset);
  if (const auto paths = paths_.find(module.build_id); frames.empty() && paths != paths_.end()) {
    for (auto path = paths->second.begin(); frames.empty() && path != paths->second.end(); ++path) {
      frames = symbols_of({*path, module.build_id}).frames(offset);
    }
  }
  return frames;
}

const std::vector<NativeFrame>& Symbolizer::frames(const ProcessTrace& trace,
                                                   uint64_t return_address) {
  const ModuleText* module = module_of(trace, return_address - 1);
  const uint64_t offset = module == nullptr ? return_address : return_address - module->bias;
  const ModuleKey key = module == nullptr ? ModuleKey() : ModuleKey(module->path, module->build_id);
  const auto [entry, is_new] = cache_.try_emplace({key, offset});
  std::vector<NativeFrame>& frames = entry->second;
  if (!is_new) {
    return frames;
  }
  if (module != nullptr) {
    // The call lies before the address that it returns to, perhaps in another line.
    frames = frames_of(*module, offset - 1);
  }
  if (frames.empty()) {
    frames.emplace_back();
  }
  for (NativeFrame& frame : frames) {
    frame.module = key.first;
    frame.offset = offset;
  }
  return frames;
}

}  // namespace traintrace
