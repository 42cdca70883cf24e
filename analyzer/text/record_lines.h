// The lines of a dump that are one record each.
#pragma once

#include <span>
#include <string>

#include "analyzer/text/draft.h"
#include "analyzer/text/key_reader.h"

namespace traintrace {

// All return false after a complaint.
bool read_record_line(DraftSet& drafts, std::span<const std::string> words);
bool read_event_line(DraftSet& drafts, std::span<const std::string> words);
void read_process_keys(KeyReader& keys, ProcessTrace& trace);

}  // namespace traintrace
