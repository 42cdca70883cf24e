// Walks over the loader's list of objects.
//
// dl_iterate_phdr holds a lock that fork() neither takes nor resets in the child, as it does with
// that of dlopen (glibc's posix/fork.c; seen with 2.36).  A child that is forked during a walk
// could never load a library.  So fork() waits for our walks, and they for it.  Children of
// vfork(), of _Fork() and of the kernel's own calls are not waited for: no handler runs.
#pragma once

#include <link.h>

namespace traintrace {

// dl_iterate_phdr(), and what it returns.  While another thread forks it waits for that, as
// malloc() does, but no more than some 100 ms for each fork.  The callback must not block.
int walk_loader(int (*callback)(dl_phdr_info*, size_t, void*), void* context) noexcept;

// From here on fork() waits for walks that have begun, some 100 ms at most; where that was too
// short it never waits again.  Called once in a process.
void let_forks_wait_for_walks() noexcept;

}  // namespace traintrace
