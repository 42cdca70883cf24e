#include "analyzer/model/process/threads_now.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/model/process/library_header.h"

namespace traintrace {

const ThreadNow* working_thread(const ProcessTrace& trace, int caller) {
  const ThreadNow* main = nullptr;
  const ThreadNow* calling = nullptr;
  for (const ThreadNow& thread : trace.now) {
    calling = thread.pid == 0 && thread.tid == caller && caller != 0 ? &thread : calling;
    const bool in_vendors = thread.waiting == Waiting::kNccl || thread.waiting == Waiting::kCuda;
    if (in_vendors && (thread.role == "main" || thread.role == "autograd")) {
      return &thread;
    }
    main = thread.role == "main" ? &thread : main;
  }
  const bool only_waits = main == nullptr || main->waiting == Waiting::kThread;
  return only_waits && calling != nullptr ? calling : main;
}

std::optional<CodePlace> place_now(const ThreadNow& thread, Rank rank) {
  for (const FrameNow& frame : thread.python) {
    if (is_user_file(frame.file)) {
      return CodePlace{rank, frame.file, frame.line, frame.function, "python"};
    }
  }
  for (const FrameNow& frame : thread.native) {
    if (!frame.file.empty() && is_user_module(frame.module) && !is_library_header(frame.file)) {
      return CodePlace{rank, frame.file, frame.line, frame.function, "c++"};
    }
  }
  for (const FrameNow& frame : thread.native) {
    if (!frame.function.empty() && is_user_module(frame.module)) {
      return CodePlace{rank, frame.module, 0, frame.function, "native"};
    }
  }
  return std::nullopt;
}

std::string doing_text(const ThreadNow& thread) {
  const char* const holds = thread.holds_gil ? ", holds the GIL" : "";
  if (thread.state == 'T' || thread.state == 't') {
    return fmt::format("is stopped (SIGSTOP or a debugger){}", holds);
  }
  if (thread.waiting == Waiting::kRuns) {
    return fmt::format("runs{}", holds);
  }
  if (thread.waiting == Waiting::kNccl || thread.waiting == Waiting::kCuda) {
    return fmt::format("is in {}{}",
                       thread.waiting_on.empty() ? waiting_text(thread.waiting) : thread.waiting_on,
                       holds);
  }
  return fmt::format("waits for {}{}{}{}{}", waiting_text(thread.waiting),
                     thread.waiting_on.empty() ? "" : " ", thread.waiting_on,
                     thread.timed ? ", up to a time limit" : "", holds);
}

}  // namespace traintrace
