// What things are called in the text form.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// One per communicator of the process: its name, or its number where it has none, or one that is
// not its own, or one that could be taken for a number.
std::vector<std::string> communicator_labels(const ProcessTrace& trace);

std::string python_frame_word(const PythonFrameText& frame);                 // file:line:function
std::string native_frame_word(const ProcessTrace& trace, uint64_t address);  // 0x12(libx.so+0x2)
// One of the two, or nothing: neither.
bool parse_frame(std::string_view word, StackText& stack);

// The module that an address lies in, or null.
const ModuleText* module_of(const ProcessTrace& trace, uint64_t address);

}  // namespace traintrace
