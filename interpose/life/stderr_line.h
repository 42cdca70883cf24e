// The little that the tracer says where the job's user looks.
#pragma once

namespace traintrace {

// "traintrace: WHAT" on stderr, unless that would block.  Nothing in a process that was started
// without one: what has its number then is a file of the job's.
void say(const char* what) noexcept;
// At the exit, by a thread of the job: what the own thread could not.
void say_unsaid() noexcept;

// The same, but at most once in this process and those that it forks: for what keeps it from
// recording.
void complain(const char* what) noexcept;

}  // namespace traintrace
