// What is written once about the process: its environment, program, folder, settings.
#pragma once

#include "interpose/settings.h"
#include "interpose/thread.h"

namespace traintrace {

void write_fact(ThreadState& thread, const char* key, const char* value) noexcept;
// `ring_mb` as it became, where there was too little memory for what was asked for.
void write_facts(ThreadState& thread, const Settings& settings, uint32_t ring_mb) noexcept;

}  // namespace traintrace
