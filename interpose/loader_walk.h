// Walks over the loader's list of objects.
//
// dl_iterate_phdr holds a lock that glibc's fork() neither takes nor gives to the child anew (it
// does so for the lock of dlopen only: posix/fork.c, glibc 2.28 to 2.42).  A child that is forked
// during a walk could never load a library.  So fork() waits for our walks, and they for it.
#pragma once

#include <link.h>

namespace traintrace {

// dl_iterate_phdr(), and what it returns.  While another thread forks it waits for the fork, some
// 100 ms at most, as malloc() does.  The callback must not block.
int walk_loader(int (*callback)(dl_phdr_info*, size_t, void*), void* context) noexcept;

// From here on fork() waits for walks that have begun, some 100 ms at most; where that was too
// short it never waits again.  Called once in a process.
void let_forks_wait_for_walks() noexcept;

}  // namespace traintrace
