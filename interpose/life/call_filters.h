// Filters of the system's calls (seccomp) that a process installs by itself.  One that answers with
// the end of the process would end the job for what the tracer does.
#pragma once

namespace traintrace {

// Since this library was loaded, in the calling thread.  Opens a file.
bool call_filters_since_load() noexcept;

// In the own thread, before recording begins: notes how many there are, and keeps what tells it.
void call_filters_watch() noexcept;

// In the own thread and the one that copies: looks, and once there are more, for good.  Where it is
// true nothing is opened, created or sent to anybody any more.
bool call_filters_added() noexcept;

// As they were found, for the other threads, and for children, which inherit filters.
bool call_filters_were_added() noexcept;

}  // namespace traintrace
