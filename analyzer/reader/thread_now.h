// What a thread of a running process was doing when it was looked at (live/).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace traintrace {

// What a thread waits for, as far as its stack and its system call tell.
enum class Waiting : uint8_t {
  kUnknown,     // it waits, and nothing says for what
  kRuns,        // it does not wait
  kNccl,        // inside a function of NCCL
  kCuda,        // inside a function of CUDA
  kGil,         // for Python's global interpreter lock
  kDataLoader,  // for batches of torch.utils.data
  kQueue,       // queue, multiprocessing.Queue
  kCheckpoint,  // reads or writes a checkpoint
  kStore,       // TCPStore or another rendezvous
  kFile,        // reads or writes a file
  kSocket,
  kPipe,
  kSleep,
  kChild,  // for another process to end
  kLock,
  kCondition,  // for another thread to signal it
  kThread,     // for another thread to end
};
// "a lock", "the GIL", ..
const char* waiting_text(Waiting waiting);

struct FrameNow {
  std::string function;
  std::string file;
  int line = 0;
  std::string module;  // native frames: path of the file
  bool python = false;
  bool inlined = false;  // into the frame after it
};

struct ThreadNow {
  int tid = 0;
  int pid = 0;  // of a child of the rank's process that it waits for; 0: the rank's own
  std::string name;
  std::string role;  // "main", "autograd", "NCCL watchdog", ..; empty: none that we know
  char state = '?';  // as in /proc
  Waiting waiting = Waiting::kUnknown;
  std::string waiting_on;        // the file, the call; may be empty
  std::vector<FrameNow> python;  // innermost first
  std::vector<FrameNow> native;
  bool holds_gil = false;
  bool python_is_whole = false;  // the walk reached the outermost frame
  bool steady = false;           // two looks saw the same stacks
  bool ran = false;              // between them, if only to look whether it may go on
  bool timed = false;            // it waits no longer than a time that it has set itself
};

}  // namespace traintrace
