// What is recorded once and referred to by id: written by one thread into a chunk of its own, so
// that nobody waits for anybody.  begin_definition and commit_definition are in thread.h.
#pragma once

#include "interpose/record/thread.h"

namespace traintrace {

// When the thread has ended, by whoever noticed it: the rest of its chunk goes to the next thread.
void release_definitions(ThreadState& thread) noexcept;

// Copies what lies behind a definition's fixed part, piece by piece; returns where the next one
// goes.
inline char* append(char* to, const void* from, size_t bytes) noexcept {
  __builtin_memcpy(to, from, bytes);
  return to + bytes;
}

// Key and value of a FactDefinition.
void define_fact(ThreadState& thread, const char* key, const char* value,
                 size_t value_bytes) noexcept;

void definitions_start() noexcept;
void definitions_drop() noexcept;

}  // namespace traintrace
