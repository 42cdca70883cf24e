// Which versions of the driver and of NCCL the process runs, and whether the CUDA runtime is a part
// of the program, as facts.
#pragma once

#include "format/schema.h"
#include "interpose/record/thread.h"

namespace traintrace {

// Keeps the function that says its version, of a library that stays loaded.  Calls nothing.
void version_sought(format::Library library, void* handle) noexcept;

// The code at `caller` asks the driver for what only the CUDA runtime uses.  Of a runtime that is
// linked into the program itself no call of its own is seen; that libraries as cuBLAS have one of
// their own is nothing new.
void runtime_asks(const void* caller) noexcept;

// Writes what was not written into this trace yet.  Calls into the libraries, so only where a
// thread of the job is about to do so itself.
void define_versions(ThreadState& thread) noexcept;
extern bool g_new_version;  // there is something to be written

// Calls that come before a library is in full use, and seldom: where new versions are looked for.
constexpr bool begins_use(format::Kind kind) {
  using Kind = format::Kind;
  return kind == Kind::Context || kind == Kind::Alloc || kind == Kind::Create ||
         kind == Kind::Module || kind == Kind::CommInit || kind == Kind::CommOther;
}

void versions_start() noexcept;

}  // namespace traintrace
