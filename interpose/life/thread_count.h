// The C library ends a process whose main thread has left by pthread_exit when the last thread that
// it counts ends: there what is to be done at the end is done, with that thread's descriptors.  So
// the tracer's threads must not count, as they end later and have none.
#pragma once

namespace traintrace {

// In a thread of the tracer's that was created by pthread_create, once.  False: it is the last one
// already, and is counted.
bool leave_thread_count() noexcept;

// Before it returns, if it left.
void rejoin_thread_count() noexcept;

}  // namespace traintrace
