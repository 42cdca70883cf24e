// The frames of a Python thread.
#pragma once

#include <cstdint>

#include "cpython/memory.h"
#include "cpython/runtime.h"

namespace traintrace {

struct PythonFrame {
  uint64_t code;        // address of the code object
  int32_t instruction;  // offset of the current instruction in bytes; -1: before the first
};

// A frame that may never have run (3.9, 3.10: -1) or just begins (3.11: before the first).
inline int32_t normal_python_instruction(int64_t offset) {
  return offset < 0 ? -1 : static_cast<int32_t>(offset);
}

enum class PythonStep { kFrame, kSkipped, kBroken };

// One walk over a frame chain; `Memory` reads, in place or after asking, from inside or outside.
// What it knows of the interpreter is copied: the frames that it writes cannot change that, so that
// a compiler keeps it in registers.
template <class Memory>
class PythonWalk {
 public:
  PythonWalk(const PythonRuntime& python, Memory& memory)
      : at_(python.layout),
        runtime_(python.runtime),
        code_type_(python.code_type),
        frame_type_(python.frame_type),
        memory_(memory) {}

  // Begins with a thread state's innermost frame: 0 where it runs no Python.  False if this is not
  // the state of the thread that pthread_self calls `thread`.
  bool begin(uint64_t state, uint64_t thread, uint64_t& frame) {
    uint64_t id = 0;
    frame = 0;
    if (!plausible_address(state) || !memory_.load(state + at_.thread_id, id) || id != thread) {
      return false;
    }
    if (is_dying(state)) {
      return true;
    }
    return memory_.load(state + at_.thread_frame, frame) &&
           (at_.cframe_frame == PythonLayout::kNone ||
            (plausible_address(frame) && memory_.load(frame + at_.cframe_frame, frame)));
  }

  // Reads the frame and goes to the one that called it.
  PythonStep next(uint64_t& frame, PythonFrame& out) {
    const uint64_t here = frame;
    if (!plausible_address(here) || !memory_.load(here + at_.frame_previous, frame)) {
      return PythonStep::kBroken;
    }
    if (at_.frame_owner != PythonLayout::kNone) {
      uint8_t owner = 0;
      if (!memory_.load(here + at_.frame_owner, owner) || owner > kLastOwner) {
        return PythonStep::kBroken;
      }
      if (owner >= kFirstShim) {
        return PythonStep::kSkipped;
      }
    } else if (!is_a(here, at_.frame_type, frame_type_)) {
      return PythonStep::kBroken;
    }
    return read(here, out) ? PythonStep::kFrame : PythonStep::kBroken;
  }

 private:
  // enum _frameowner: thread, generator, frame object; from 3.12 on frames without bytecode, which
  // stand for C code that called the interpreter.
  static constexpr uint8_t kFirstShim = 3;
  static constexpr uint8_t kLastOwner = 4;
  // From 3.14 on the lowest bits say how the reference is counted.
  static constexpr uint64_t kTagBits = 7;

  // The finalising thread deletes the states of threads that still run C code, and their frames.
  // Those of a daemon thread can go in the middle of a walk that began just before: some 100 ns
  // against the microseconds at least from this flag to the first deletion.
  bool is_dying(uint64_t state) {
    uint64_t finalizing = 0;
    return !memory_.load(runtime_ + at_.runtime_finalizing, finalizing) ||
           (finalizing != 0 && finalizing != state);
  }

  bool is_a(uint64_t object, uint16_t type_offset, uint64_t type) {
    uint64_t actual = 0;
    return memory_.load(object + type_offset, actual) && actual == type;
  }

  bool read(uint64_t frame, PythonFrame& out) {
    if (!memory_.load(frame + at_.frame_code, out.code)) {
      return false;
    }
    out.code &= ~kTagBits;
    if (!plausible_address(out.code) || !is_a(out.code, at_.object.type, code_type_)) {
      return false;
    }
    if (at_.instruction_unit == 0) {
      return read_pointer(frame, out);
    }
    int32_t units = 0;
    if (!memory_.load(frame + at_.frame_instruction, units)) {
      return false;
    }
    out.instruction = normal_python_instruction(int64_t{units} * at_.instruction_unit);
    return true;
  }

  bool read_pointer(uint64_t frame, PythonFrame& out) {
    uint64_t instruction = 0;
    uint64_t units = 0;
    uint64_t begin = out.code + at_.code_bytecode;
    if (!memory_.load(frame + at_.frame_instruction, instruction) ||
        !memory_.load(out.code + at_.object.size, units) ||
        (at_.frame_bytecode != PythonLayout::kNone && !find_copy(frame, out.code, begin))) {
      return false;
    }
    const int64_t offset = static_cast<int64_t>(instruction - begin);
    // -2: just begins.
    if (offset < -2 || offset >= static_cast<int64_t>(2 * units)) {
      return false;
    }
    out.instruction = normal_python_instruction(offset);
    return true;
  }

  // Free-threaded: where the copy begins that this frame runs.
  bool find_copy(uint64_t frame, uint64_t code, uint64_t& begin) {
    int32_t index = 0;
    uint64_t copies = 0;
    uint64_t size = 0;
    if (!memory_.load(frame + at_.frame_bytecode, index) ||
        !memory_.load(code + at_.code_bytecode_copies, copies) || !plausible_address(copies) ||
        !memory_.load(copies, size) || index < 0 || static_cast<uint64_t>(index) >= size ||
        size > 1 << 20) {
      return false;
    }
    return memory_.load(copies + 8 + 8 * static_cast<uint64_t>(index), begin);
  }

  const PythonLayout at_;
  const uint64_t runtime_;
  const uint64_t code_type_;
  const uint64_t frame_type_;
  Memory& memory_;
};

}  // namespace traintrace
