#include "interpose/python/python_sampled.h"

#include "interpose/python/python_runtime.h"

namespace traintrace {
namespace {

constexpr size_t kMost = 256;

struct Frames {
  size_t count = 0;  // 0: not to the end, or too many
  PythonFrame list[kMost];
};

void walk(const PythonRuntime& python, const PythonThread& thread, CopiedMemory& memory,
          Frames& frames) {
  memory.forget();
  frames.count = 0;
  PythonWalk walk(python, memory);
  uint64_t frame = 0;
  if (!walk.begin(thread.state, thread.thread, frame)) {
    return;
  }
  size_t count = 0;
  while (frame != 0 && count < kMost) {
    const PythonStep step = walk.next(frame, frames.list[count]);
    if (step == PythonStep::kBroken) {
      return;
    }
    count += step == PythonStep::kFrame ? 1 : 0;
  }
  frames.count = frame == 0 ? count : 0;
}

bool is_same(const PythonFrame& a, const PythonFrame& b) {
  return a.code == b.code && a.instruction == b.instruction;
}

}  // namespace

size_t sampled_frames(const PythonThread& thread, CopiedMemory& memory, PythonFrame* out,
                      size_t max) noexcept {
  const PythonRuntime* const python = known_python();
  if (python == nullptr || thread.state == 0) {
    return 0;
  }
  Frames before;
  Frames after;
  walk(*python, thread, memory, before);
  walk(*python, thread, memory, after);
  size_t common = 0;
  while (common < before.count && common < after.count &&
         is_same(before.list[before.count - 1 - common], after.list[after.count - 1 - common])) {
    ++common;
  }
  // The outermost ones, where there are too many.
  const size_t count = common < max ? common : max;
  for (size_t i = 0; i < count; ++i) {
    out[i] = after.list[after.count - count + i];
  }
  return count;
}

}  // namespace traintrace
