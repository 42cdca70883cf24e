// Filters of system calls for all threads of the process, those of the tracer too; they end it, if
// not said otherwise.
#pragma once

namespace unharmed {

// What opens, creates, removes or asks for something; not what a program needs that only works on.
bool kill_whoever_opens();

// Calls by which memory and descriptors are shared with others, which a program needs seldom.
bool kill_whoever_shares();

// Answers these with EPERM.
bool deny_to_poll();

// What a program with threads and memory needs; anything else ends it.
bool allow_little();

}  // namespace unharmed
