// What is written once about the process: its environment, program, folder, settings.
#pragma once

#include "interpose/settings.h"
#include "interpose/thread.h"
#include "interpose/trace_file.h"

namespace traintrace {

void write_fact(ThreadState& thread, const char* key, const char* value) noexcept;
void write_facts(ThreadState& thread, const Settings& settings, const TraceFile& file) noexcept;

}  // namespace traintrace
