// The ways out of a process that run no exit handlers.
#include <sys/syscall.h>
#include <unistd.h>

#include "format/trace_format.h"
#include "interpose/calls/elf_next.h"
#include "interpose/life/arming.h"

namespace traintrace {
namespace {

using ExitFunction = void (*)(int);

// Looked up at the start: at the end locks may be held by threads that are gone.
constinit ExitFunction g_exit = nullptr;
constinit ExitFunction g_exit_c99 = nullptr;
constinit ExitFunction g_quick_exit = nullptr;

[[gnu::constructor]] void find_exits() {
  g_exit = reinterpret_cast<ExitFunction>(next_definition("_exit"));
  g_exit_c99 = reinterpret_cast<ExitFunction>(next_definition("_Exit"));
  g_quick_exit = reinterpret_cast<ExitFunction>(next_definition("quick_exit"));
}

// Whatever else replaces the function comes next; without it the kernel does the same.
[[noreturn]] void go(ExitFunction next, int status) {
  note_exit(format::kFastExit, status);
  if (next) {
    next(status);
  }
  for (;;) {
    syscall(SYS_exit_group, status);
  }
}

}  // namespace

extern "C" {
// Called what exports.def says.  NOLINTBEGIN(*-identifier-naming,*-reserved-identifier)

[[noreturn]] void tt_hook__exit(int status) {
  go(g_exit, status);
}

[[noreturn]] void tt_hook__Exit(int status) {
  go(g_exit_c99, status);
}

[[noreturn]] void tt_hook_quick_exit(int status) {
  go(g_quick_exit, status);
}

// NOLINTEND(*-identifier-naming,*-reserved-identifier)
}  // extern "C"

}  // namespace traintrace
