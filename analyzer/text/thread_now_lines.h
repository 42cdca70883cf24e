// The lines of a dump that say what the threads of a process were doing when it was looked at.
#pragma once

#include <span>
#include <string>

#include "analyzer/text/draft.h"

namespace traintrace {

// All return false after a complaint.
bool read_thread_now(DraftSet& drafts, Draft& draft, std::span<const std::string> words);
bool read_frame_now(DraftSet& drafts, Draft& draft, std::span<const std::string> words);

void append_threads_now(std::string& out, const ProcessTrace& trace, TimeNs start);

}  // namespace traintrace
