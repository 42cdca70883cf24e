// Places in the user's code.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "analyzer/model/ids.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct CodePlace {
  Rank rank;
  std::string file;
  int line = 0;  // 0: not known
  std::string function;
  std::string language;  // python, c++; native: only the module is known, and an offset in it
  // Of the rank's stacks, the one that it is on: the callers are its, and not those of whoever else
  // comes by the same line.  0: none is known.
  uint32_t stack = 0;

  bool operator==(const CodePlace& other) const {
    return std::tie(rank, file, line, function, language) ==
           std::tie(other.rank, other.file, other.line, other.function, other.language);
  }
};

// Neither the standard library, nor what is installed (torch and others), nor this tool.
bool is_user_file(std::string_view file);
// The same of the file of a native module.
bool is_user_module(std::string_view path);

// No shared library of the CUDA runtime was loaded: if it is used at all, it is linked into the
// program or into a library of it, as nvcc does by default.
bool has_linked_runtime(const ProcessTrace& trace);
// "cudaMalloc"
bool is_runtime_function(std::string_view function);

// The return address of the innermost frame that is in no library of the system, of Python or of
// the vendors, nor known to be of a runtime that is linked into the program, and not known to be of
// a header of theirs if another is; 0: none, or Python says more.
uint64_t native_user_frame(const ProcessTrace& trace, const StackText& stack);

// A frame is in PyTorch's native libraries.
bool is_of_torch(const ProcessTrace& trace, const StackText& stack);

// The innermost frame of the user's code, outside of a helper that all calls of their kind share;
// where there are only native frames, the innermost that is
// in no library of the system, of Python or of the vendors.  None: the stack is unknown or has no
// such frame.
std::optional<CodePlace> user_place(const ProcessTrace& trace, Rank rank, uint32_t stack);

// "train.py:118 in train_step"; the folder is left out.
std::string place_text(const CodePlace& place);

}  // namespace traintrace
