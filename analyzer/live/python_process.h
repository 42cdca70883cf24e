// The Python threads of another process, read from outside without stopping it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/live/live_modules.h"
#include "analyzer/live/proc_files.h"
#include "analyzer/live/process_memory.h"
#include "analyzer/reader/files/budget.h"
#include "analyzer/reader/process_trace.h"
#include "cpython/runtime.h"

namespace traintrace {

struct PythonThread {
  int tid = 0;
  std::vector<PythonFrameText> frames;  // innermost first
  std::vector<uint64_t> code;  // their code objects and instructions: what two looks compare
  bool whole = false;          // the walk reached the outermost frame
  bool holds_gil = false;
};

class PythonProcess {
 public:
  // Nothing where the process runs no CPython whose layout is known.  What is believed of a layout
  // has been seen to hold in this process: its threads must be threads that the kernel knows.
  static std::optional<PythonProcess> find(const ProcProcess& process, const LiveModules& modules);

  int minor() const { return python_.layout.minor; }
  // As far as `budget` goes; what it does not reach is left out.
  std::vector<PythonThread> threads(Budget& budget);
  // Whether it could be told who holds the GIL, at the last call of threads().
  bool knows_gil() const { return knows_gil_; }
  // Whether a thread that waits on the futex at that address waits for the GIL.
  bool is_gil(uint64_t futex) const;

 private:
  PythonProcess(const ProcProcess& process, const PythonRuntime& python);

  bool find_threads();
  bool find_threads_of(uint64_t interpreter);
  std::vector<uint64_t> words_at(uint64_t address, size_t most) const;
  bool is_first_thread(uint64_t state, uint64_t interpreter) const;
  int tid_of(uint64_t state) const;
  std::vector<uint64_t> states() const;
  std::optional<uint64_t> gil_holder(const std::vector<uint64_t>& states) const;
  PythonThread read(uint64_t state, Budget& budget);
  struct Code {
    PythonFrameText text;
    int32_t first_line = 0;
    std::vector<uint8_t> line_table;
  };
  std::optional<Code> read_code(uint64_t code, Budget& budget) const;
  std::optional<std::string> text_at(uint64_t object, Budget& budget) const;
  PythonFrameText frame_text(uint64_t code, int32_t instruction, Budget& budget);

  const ProcProcess* process_;
  PythonRuntime python_;
  OtherMemory memory_;
  uint64_t interpreter_ = 0;   // the main one
  uint32_t first_thread_ = 0;  // offset in PyInterpreterState of the list of threads
  bool knows_gil_ = false;
  mutable uint64_t gil_ = 0;  // struct _gil_runtime_state, from 3.12 on
  std::map<uint64_t, std::optional<Code>> codes_;
};

}  // namespace traintrace
