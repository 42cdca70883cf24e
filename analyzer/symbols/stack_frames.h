// The frames of a stack, innermost first, for those who show them one by one.
#pragma once

#include <vector>

#include "analyzer/symbols/symbolizer.h"

namespace traintrace {

// Python frames, where there are any: those of the interpreter below them say nothing.  Else native
// ones; what is not known of a frame is its module's name.
std::vector<PythonFrameText> stack_frames(const ProcessTrace& trace, uint32_t stack,
                                          Symbolizer& symbolizer);

// "train_step (train.py:118)"
std::string frame_text(const PythonFrameText& frame);

}  // namespace traintrace
