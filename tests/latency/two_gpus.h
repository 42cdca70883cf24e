// A process with two GPUs, of which the first waits for the second.
#pragma once
#include "job.h"

// For a copy of kCopyBytes.  Says `idle_for_copy_wait_ns`.
void awaits_copies(Job& job, int steps);

// For a collective of `collective_ns` among the second GPUs of all ranks, to which rank 1 comes
// `late_us` late.  Says `idle_for_communication_wait_ns`, `idle_for_straggler_wait_ns`.
void awaits_collectives(Job& job, int steps, int late_us);
