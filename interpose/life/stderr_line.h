// The little that the tracer says where the job's user looks.  stderr may be a full pipe that
// nobody reads, or a file on a server that is gone: no call of the job's and no thread that records
// ever waits for it.  Lines are written by a thread that does nothing else (bare_thread.h), created
// by the own thread, as that is out of the job's way; it ends when all is said.
#pragma once

namespace traintrace {

// "traintrace: WHAT" on stderr, from any thread.  Nothing in a process that was started without
// one: what has its number then is a file of the job's.  The same where it has become a socket or a
// file that is not appended to.
void say(const char* what) noexcept;

// The same, but at most once in this process and those that it forks: for what keeps it from
// recording.
void complain(const char* what) noexcept;

// The own thread lets lines be written that others have left, from now on; no more.
void own_thread_says() noexcept;
void own_thread_says_no_more() noexcept;
// By the own thread, each time that it wakes.
void say_lines() noexcept;
// Whether there is a thread that writes.
bool is_saying() noexcept;

// The own thread has lines to compose while the job goes on.
void telling_begins() noexcept;
void telling_ends() noexcept;
// At the exit, by a thread of the job: until all is written, for a second at most; a quarter of one
// where nobody reads.
void wait_until_said() noexcept;
// In the own thread: so long the call of the job waits that began recording, which came to nothing.
void wait_a_little_until_said() noexcept;

}  // namespace traintrace
