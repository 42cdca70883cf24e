#include "analyzer/memory/optimizer_state.h"

#include <algorithm>

#include "analyzer/model/code_place.h"

namespace traintrace {

bool is_optimizer_state(const ProcessTrace& trace, uint32_t stack) {
  const auto found = trace.stacks.find(stack);
  if (found == trace.stacks.end()) {
    return false;
  }
  const auto& frames = found->second.python;  // innermost first
  const auto is_of_optimizer = [](const PythonFrameText& frame) {
    return frame.file.find("torch/optim/") != frame.file.npos;
  };
  const auto first = std::find_if(frames.begin(), frames.end(), [&](const PythonFrameText& frame) {
    return is_of_optimizer(frame) || is_user_file(frame.file);
  });
  return first != frames.end() && is_of_optimizer(*first);
}

bool is_bounded_history(const ProcessTrace& trace, uint32_t stack) {
  const auto found = trace.stacks.find(stack);
  return found != trace.stacks.end() &&
         std::any_of(found->second.python.begin(), found->second.python.end(),
                     [](const PythonFrameText& frame) {
                       return frame.file.ends_with("torch/optim/lbfgs.py");
                     });
}

}  // namespace traintrace
