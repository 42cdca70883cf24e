// The file that the GPU writes marks to (format::MarksFileHeader): in memory, since the pages of
// other file systems may not be pinned for long, and with a name where that works, since it must be
// found after a SIGKILL.
#pragma once

#include <cstddef>

#include "format/trace_format.h"
#include "interpose/record/thread.h"

namespace traintrace {

// Null: there is no place for it.  Removes what killed processes of this user left long ago.
format::MarkWords* marks_file_create(ThreadState& thread) noexcept;
size_t marks_words_bytes() noexcept;

void marks_file_alive() noexcept;
// The name only: what is mapped stays, since the GPU may still write to it.
void marks_file_remove() noexcept;
void marks_file_drop() noexcept;  // in a forked child, which does not have it

}  // namespace traintrace
