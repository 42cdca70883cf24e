// Memories of traces whose process and keeper were both killed: they stay in /dev/shm under their
// names, whole.  The next keeper of the same user copies them out, and removes them.
#pragma once

namespace traintrace {

void finish_left_behind() noexcept;

}  // namespace traintrace
