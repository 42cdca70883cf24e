// The little that the tracer says where the job's user looks.
#pragma once

namespace traintrace {

// "traintrace: WHAT" on stderr, unless that would block.
void say(const char* what) noexcept;

// The same, but at most once in this process and those that it forks: for what keeps it from
// recording.
void complain(const char* what) noexcept;

}  // namespace traintrace
