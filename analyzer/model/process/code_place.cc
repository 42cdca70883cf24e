#include "analyzer/model/process/code_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "analyzer/model/process/library_header.h"
#include "format/schema.h"

namespace traintrace {
namespace {

bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

const ModuleText* module_at(const ProcessTrace& trace, uint64_t address) {
  for (const ModuleText& module : trace.modules) {
    if (address >= module.begin && address < module.end) {
      return &module;
    }
  }
  return nullptr;
}

}  // namespace

bool has_linked_runtime(const ProcessTrace& trace) {
  return !trace.modules.empty() &&
         std::none_of(trace.modules.begin(), trace.modules.end(), [](const ModuleText& module) {
           return base_name(module.path).starts_with("libcudart.so");
         });
}

bool is_user_module(std::string_view path) {
  const std::string_view name = base_name(path);
  if (path.empty() || path.starts_with('[') || path.starts_with("/usr/lib") ||
      path.starts_with("/lib") || has_any(path, {"/site-packages/", "/dist-packages/"})) {
    return false;
  }
  constexpr std::string_view kOthers[] = {
      "libtraintrace", "libcuda",     "libnccl",     "libcupti",  "libc.so",
      "libpthread",    "ld-linux",    "libstdc++",   "python",    "libpython",
      "torchrun",      "libc10",      "libtorch",    "libcublas", "libcudnn",
      "libcufft",      "libcusolver", "libcusparse", "libcurand", "libnvshmem"};
  return std::none_of(std::begin(kOthers), std::end(kOthers),
                      [&](std::string_view other) { return name.starts_with(other); });
}

bool is_user_file(std::string_view file) {
  // "<frozen importlib>", "<string>", "<__array_function__ internals>"
  if (file.empty() || file.starts_with('<')) {
    return false;
  }
  // Of glibc, as its own build names them.
  if (file.starts_with("../sysdeps/") || file.starts_with("../csu/") ||
      file.starts_with("./csu/") || file.starts_with("./nptl/")) {
    return false;
  }
  // The standard library lies in lib/python3.11/ or lib/python311.zip, wherever Python is.
  // And torch in a tree of its own; a folder of the user's may have that name too.
  return !has_any(file, {"/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python",
                         "/torch/nn/", "/torch/distributed/", "/torch/autograd/", "/torch/utils/",
                         "/torch/optim/", "/torch/cuda/", "/torch/_", "/torch/functional.py",
                         "/torch/serialization.py", "/torch/storage.py", "/traintrace/python/"}) &&
         !file.starts_with("torch/") && !is_library_header(file);
}

bool is_runtime_function(std::string_view function) {
  static const auto& names = *[] {
    auto* const all = new std::unordered_set<std::string_view>;
    for (const format::CallSpec& call : format::kCalls) {
      if (call.library == format::Library::Runtime) {
        all->insert(call.name);
      }
    }
    return all;
  }();
  return function.starts_with("cuda") && names.contains(function);
}

uint64_t native_user_frame(const ProcessTrace& trace, const StackText& stack) {
  if (std::any_of(stack.python.begin(), stack.python.end(),
                  [](const PythonFrameText& frame) { return is_user_file(frame.file); })) {
    return 0;
  }
  uint64_t found = 0;
  uint64_t in_header = 0;
  for (const uint64_t address : stack.native) {
    const auto known = trace.code.find(address);
    const bool is_known = known != trace.code.end();
    if (is_known && is_runtime_function(known->second.function)) {
      // Of a runtime that is linked into the program: what it calls is its own, too.
      found = in_header = 0;
      continue;
    }
    const ModuleText* const module = found == 0 ? module_at(trace, address) : nullptr;
    if (module == nullptr || !is_user_module(module->path)) {
      continue;
    }
    if (!is_known || !is_library_header(known->second.file)) {
      found = address;
    } else {
      in_header = in_header == 0 ? address : in_header;
    }
  }
  return found == 0 ? in_header : found;
}

bool is_of_torch(const ProcessTrace& trace, const StackText& stack) {
  return std::any_of(stack.native.begin(), stack.native.end(), [&](uint64_t address) {
    const ModuleText* const module = module_at(trace, address);
    return module != nullptr && module->path.find("libtorch") != std::string::npos;
  });
}

// What all messages of a pipeline go through, in a framework that is part of the job: it is the
// caller that tells them apart.
static bool is_shared_helper(const PythonFrameText& frame) {
  const std::string_view function = frame.function;
  return frame.file.ends_with("/pipeline_parallel/p2p_communication.py")
             ? function.substr(function.rfind('.') + 1).starts_with('_')
             : frame.file.ends_with("/runtime/pipe/p2p.py");
}

std::optional<CodePlace> user_place(const ProcessTrace& trace, Rank rank, uint32_t stack) {
  const auto found = trace.stacks.find(stack);
  if (found == trace.stacks.end()) {
    return std::nullopt;
  }
  std::optional<CodePlace> helper;
  for (const PythonFrameText& frame : found->second.python) {
    if (!is_user_file(frame.file)) {
      continue;
    }
    CodePlace place{rank, frame.file, frame.line, frame.function, "python", stack};
    if (!is_shared_helper(frame)) {
      return place;
    }
    helper = helper ? helper : place;
  }
  if (helper) {
    return helper;
  }
  const uint64_t address = native_user_frame(trace, found->second);
  if (address == 0) {
    return std::nullopt;
  }
  if (const auto known = trace.code.find(address); known != trace.code.end()) {
    return CodePlace{rank, known->second.file, known->second.line, known->second.function, "c++",
                     stack};
  }
  const ModuleText* module = module_at(trace, address);
  return CodePlace{rank,     module->path, 0, fmt::format("0x{:x}", address - module->bias),
                   "native", stack};
}

std::string place_text(const CodePlace& place) {
  const std::string line = place.line > 0 ? fmt::format(":{}", place.line) : "";
  if (place.file.empty()) {
    return place.function;
  }
  if (place.language == "native" && place.function.starts_with("0x")) {  // as addr2line takes it
    return fmt::format("{}+{}", base_name(place.file), place.function);
  }
  const std::string in = place.function.empty() ? "" : fmt::format(" in {}", place.function);
  return fmt::format("{}{}{}", base_name(place.file), line, in);
}

}  // namespace traintrace
